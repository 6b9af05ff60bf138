package node

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
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

// startCheck finds what a start would refuse though the file reads well.
type startCheck struct{ *Node }

// all finds what a start would refuse though the file reads well: what
// the files that it names hold. It runs the code that a start runs, up to where
// that speaks to anybody. A role that is not set up is not looked at.
func (c startCheck) all() []*config.Problem {
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
		add(c.dataDir(role), c.key(role), c.wallet(role))
	}

	if len(c.Provider.Offers) == 0 {
		return all
	}
	_, err := keys.RootSecret(c.Path(c.Identity.RootSecretFile))
	add(badAt("$.identity.root_secret_file", err), badAt("$.sandbox.ca_file", sandbox.CheckAuthorities(c.Path(c.Sandbox.CAFile))))

	// The built-in agents need the model: without it there is no list of agents.
	if bad := c.model(); bad != nil {
		add(bad)
	} else {
		add(c.installed()...)
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

// dataDir finds a file where the folder of the databases would be made.
func (c startCheck) dataDir(role string) *config.Problem {
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

// key reads a role's key file, and unlocks it where that asks nobody.
func (c startCheck) key(role string) *config.Problem {
	key, err := keys.Read(c.Config, role)
	if err != nil {
		return badAt("$.identity."+role+"_key_file", err)
	}
	if key.Kept != keys.KeptLocked || c.PassphraseFile(role) == "" {
		return nil
	}
	_, err = key.Open(c.Config)
	return badAt("$.identity."+role+"_passphrase_file", err)
}

// wallet reads what opening the role's wallet reads.
func (c startCheck) wallet(role string) *config.Problem {
	at, w := "$."+role+".wallet.", c.WalletOf(role)
	switch w.Backend {
	case "play":
		client, _, err := wallets.DialPlay(c.Config, w.Play)
		if err != nil {
			return badAt(at+"play.token_file", err)
		}
		client.Close()
	case "lnd", config.BackendOnchain:
		client, err := wallets.OpenLND(c.Config, w.LND, nil)
		switch {
		case err == nil:
			return badAt(at+"lnd.address", client.Close())
		case strings.Contains(err.Error(), c.Path(w.LND.MacaroonFile)):
			return badAt(at+"lnd.macaroon_file", err)
		}
		return badAt(at+"lnd.tls_cert_file", err)
	case "nwc":
		_, err := wallets.ReadConnection(c.Path(w.NWC.URIFile))
		return badAt(at+"nwc.uri_file", err)
	case "cashu":
		_, err := wallets.ReadSeed(c.Config, w.Cashu)
		return badAt(at+"cashu.seed_file", err)
	}

	return nil
}

// model makes the client that the agents for text make.
func (c startCheck) model() *config.Problem {
	endpoint := builtin.Endpoint(c.Config)
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

// installed finds agents that are not there, and offers whose tool could
// not be called.
func (c startCheck) installed() []*config.Problem {
	all, err := AgentsOf(c.Node).Installed()
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
			bad.Why, bad.Hint = all[at].Reason, advice.With(advice.ApproveAgent, agent)+" allows it"
		default:
			continue
		}

		found = append(found, bad)
	}

	return found
}

// organism finds what the organism's file alone does not show: a listener
// whose tool, or model, the configuration lacks.
func (c startCheck) organism() (wrong []error) {
	if c.Organism == "" {
		return nil
	}
	o, err := organism.Load(c.OrganismFile())
	if err != nil {
		return []error{advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)}
	}
	slots, err := AgentsOf(c.Node).allSlots()
	if err != nil {
		return []error{err}
	}
	if _, err := organisms.Accounts(o); err != nil {
		wrong = append(wrong, advice.Usage("name an account of this machine", "%s: %w", c.OrganismFile(), err))
	}

	for _, l := range o.Listeners {
		switch {
		case l.Agent != nil && (builtin.Endpoint(c.Config) == nil || c.Model.Name == ""):
			wrong = append(wrong, advice.Usage("give the endpoint under model: base_url and name", "%s: listener %s thinks, and no model is configured", c.OrganismFile(), l.Name))
		case organisms.AsksModel(c.Config, l.Handler):
			wrong = append(wrong, advice.Usage(organisms.ThinkHint, "%s: listener %s: %s asks the language model, which only agents do", c.OrganismFile(), l.Name, l.Handler))
		case l.Agent == nil && l.Handler != organisms.UnfoldTool && !slices.Contains(slots, l.Handler):
			wrong = append(wrong, advice.Usage("under agents, name the agent's folder and the tool", "%s: listener %s: no agent of the configuration has %s", c.OrganismFile(), l.Name, l.Handler))
		}
	}

	return wrong
}

// Ready says what a start would refuse.
func (c *Node) Ready() error {
	check := startCheck{c}
	found := check.all()
	start := c.ErrorOf(found)
	if start == nil {
		return allOf(check.organism())
	}

	// What the organism lacks of the configuration may follow from what is wrong there;
	// mistakes in its own file do not.
	errs := []error{start}
	missing := slices.ContainsFunc(found, func(bad *config.Problem) bool { return bad.Path == "$.organism" })
	if c.Organism != "" && !missing {
		if _, err := organism.Load(c.OrganismFile()); err != nil {
			errs = append(errs, advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err))
		}
	}

	return allOf(errs)
}

// allOf is several mistakes as one error, each with its own next step; nil if there
// are none.
func allOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}

	var said []string
	for _, err := range errs {
		text := err.Error()
		if coded := (*advice.Error)(nil); errors.As(err, &coded) && coded.Hint != "" {
			text += "\n  hint: " + coded.Hint
		}
		said = append(said, text)
	}

	return advice.Usage("", "%s", strings.Join(said, "\n"))
}
