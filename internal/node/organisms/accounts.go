package organisms

import (
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
)

// account is whose process an agent becomes.
type account struct {
	name     string
	uid, gid int
}

// Accounts says under which account the agents run whose tools a profile of the
// organism reaches: the profile's linux_user. An agent is one process, so it
// cannot have two.
func Accounts(o *organism.Organism) (map[string]account, error) {
	all := map[string]account{}
	for _, p := range o.Profiles {
		if p.LinuxUser == "" {
			continue
		}
		a, err := lookUpAccount(p.LinuxUser)
		if err != nil {
			return nil, fmt.Errorf("profile %s: linux_user: %w", p.Name, err)
		}

		for _, name := range p.Listeners {
			l, _ := o.Listener(name)
			agent, _, isTool := strings.Cut(l.Handler, "/")
			if !isTool {
				continue
			}
			if other, taken := all[agent]; taken && other != a {
				return nil, fmt.Errorf("profile %s: linux_user: %s runs as %s for another profile already", p.Name, agent, other.name)
			}
			all[agent] = a
		}
	}

	return all, nil
}

func lookUpAccount(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return account{}, err
	}
	if uid == 0 || gid == 0 {
		return account{}, fmt.Errorf("%s is root, which is no account of its own", name)
	}

	return account{name, uid, gid}, nil
}

// SetAccounts gives installed agents the accounts of the organism. A node that
// is not root cannot, and says so: the agent is then confined as its own user.
func SetAccounts(c *config.Config, installed []host.Installed, log *slog.Logger) error {
	if c.Organism == "" {
		return nil
	}
	o, err := organism.Load(c.OrganismFile())
	if err != nil {
		return advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}
	wanted, err := Accounts(o)
	if err != nil {
		return advice.Usage("name an account of this machine, the same for all profiles that reach the agent", "%s: %w", c.OrganismFile(), err)
	}

	for i := range installed {
		in := &installed[i]
		m, err := manifest.Read(filepath.Join(in.Dir, manifest.FileName))
		if err != nil {
			continue // the host says so when it is to start
		}

		a, ok := wanted[m.ID]
		switch {
		case !ok || in.UID == a.uid && in.GID == a.gid:
		case in.UID != 0 || in.GID != 0:
			return advice.Usage("leave one of them out", "%s: uid and gid of the configuration are not those of linux_user %s", m.ID, a.name)
		case os.Geteuid() != 0:
			log.Warn("only root gives an agent another account: it runs under the node's, confined", "agent", m.ID, "linux_user", a.name)
		default:
			in.UID, in.GID = a.uid, a.gid
		}
	}

	return nil
}

// ThinkHint is for who gives a tool the way to the language model.
const ThinkHint = "give the listener handler: agent and an agent block (docs/build-agents/thinking-agents.md)"

// AsksModel reports whether a tool, as AGENT/TOOL, is a way to the language model.
func AsksModel(c *config.Config, ref string) bool {
	tool, ok := strings.CutPrefix(ref, text.ID+"/")
	return ok && text.AsksModel(builtin.Endpoint(c), tool)
}
