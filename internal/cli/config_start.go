package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
)

// checkStart finds what a start would refuse though the file reads well: what
// the files that it names hold. It runs the code that a start runs, up to where
// that speaks to anybody. A role that is not set up is not looked at.
func (c *node) checkStart() []*config.Problem {
	var all []*config.Problem
	add := func(found ...*config.Problem) {
		for _, bad := range found {
			if bad != nil {
				all = append(all, bad)
			}
		}
	}

	for _, role := range []string{"provider", "buyer"} {
		if role == "provider" && len(c.Provider.Offers) == 0 || role == "buyer" && c.Identity.BuyerKeyFile == "" {
			continue
		}
		add(c.checkDataDir(role), c.checkKey(role), c.checkWallet(role))
	}
	if len(c.Provider.Offers) == 0 {
		return all
	}
	_, err := rootSecret(c.Path(c.Identity.RootSecretFile))
	add(badAt("$.identity.root_secret_file", err), badAt("$.sandbox.ca_file", sandbox.CheckAuthorities(c.Path(c.Sandbox.CAFile))))

	// The built-in agents need the model: without it there is no list of agents.
	if bad := c.checkModel(); bad != nil {
		add(bad)
	} else {
		add(c.checkInstalled()...)
	}
	if _, err := os.Stat(c.OrganismFile()); c.Organism != "" {
		add(badAt("$.organism", err))
	}
	return all
}

// badAt gives an error its place in the file; its hint stays.
func badAt(path string, err error) *config.Problem {
	if err == nil {
		return nil
	}
	bad := config.Mistake(path, err.Error())
	if coded := (*advice.Error)(nil); errors.As(err, &coded) {
		bad.Hint = coded.Hint
	}
	return bad
}

// checkDataDir finds a file where the folder of the databases would be made.
func (c *node) checkDataDir(role string) *config.Problem {
	for dir := c.DataDir(role); ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		switch {
		case err == nil && st.IsDir():
			return nil
		case err == nil:
			return config.Mistake("$.node.data_dir", dir+" is no folder")
		case !errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) == dir:
			return badAt("$.node.data_dir", err)
		}
	}
}

// checkKey reads a role's key file, and unlocks it where that asks nobody.
func (c *node) checkKey(role string) *config.Problem {
	key, err := readKey(c.Config, role)
	if err != nil {
		return badAt("$.identity."+role+"_key_file", err)
	}
	if key.kept != keptLocked || c.PassphraseFile(role) == "" {
		return nil
	}
	_, err = key.open(c.Config)
	return badAt("$.identity."+role+"_passphrase_file", err)
}

// checkWallet reads what opening the role's wallet reads.
func (c *node) checkWallet(role string) *config.Problem {
	at, w := "$."+role+".wallet.", c.WalletOf(role)
	switch w.Backend {
	case "play":
		client, _, err := dialPlay(c.Config, w.Play)
		if err != nil {
			return badAt(at+"play.token_file", err)
		}
		client.Close()
	case "lnd", config.BackendOnchain:
		client, err := openLND(c.Config, w.LND, nil)
		switch {
		case err == nil:
			return badAt(at+"lnd.address", client.Close())
		case strings.Contains(err.Error(), c.Path(w.LND.MacaroonFile)):
			return badAt(at+"lnd.macaroon_file", err)
		}
		return badAt(at+"lnd.tls_cert_file", err)
	case "nwc":
		_, err := readConnection(c.Path(w.NWC.URIFile))
		return badAt(at+"nwc.uri_file", err)
	case "cashu":
		_, err := readSeed(c.Config, w.Cashu)
		return badAt(at+"cashu.seed_file", err)
	}
	return nil
}

// checkModel makes the client that the agents for text make.
func (c *node) checkModel() *config.Problem {
	endpoint := endpoint(c.Config)
	if endpoint == nil {
		return nil
	}
	_, err := model.New(endpoint.Client)
	if bad := badAt("$.model.key_env", err); c.Model.KeyEnv != "" && bad != nil {
		bad.Hint = "set it for the node, or name a file under model.key_file"
		return bad
	}
	return badAt("$.model.key_file", err)
}

// checkInstalled finds agents that are not there, and offers whose tool could
// not be called.
func (c *node) checkInstalled() []*config.Problem {
	all, err := c.agentsInstalled()
	if err != nil {
		return []*config.Problem{badAt("$.agents", err)}
	}
	var found []*config.Problem
	own := all[len(all)-len(c.Agents):] // the built-in ones come first
	for i, st := range own {
		if st.ID == "" {
			found = append(found, &config.Problem{Path: fmt.Sprintf("$.agents[%d].dir", i), Why: st.Reason, Hint: "docs/build-agents/agents.md says what the file must hold"})
		}
	}
	for i, o := range c.Provider.Offers {
		if o.Tool == "" {
			continue
		}
		agent, tool, _ := wire.ToolID(o.Tool).Split()
		bad := &config.Problem{Path: fmt.Sprintf("$.provider.offers[%d].tool", i)}
		at := slices.IndexFunc(all, func(st host.Status) bool { return st.ID == agent })
		switch {
		case at < 0:
			bad.Why, bad.Hint = "no agent is "+agent, "name its folder under agents"
		case !slices.Contains(all[at].Tools, tool):
			bad.Why = "agents[].tools of " + agent + " does not name " + tool
		case !all[at].Approved:
			bad.Why, bad.Hint = all[at].Reason, "lightwork agents approve "+agent+" allows it"
		default:
			continue
		}
		found = append(found, bad)
	}
	return found
}
