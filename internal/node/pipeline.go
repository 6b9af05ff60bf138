package node

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
)

// Profiles are the tables of the configuration.
func (c *Node) Profiles() ([]organism.View, error) {
	routes, err := routesOf(c.Config)
	if err != nil {
		return nil, err
	}

	paid := organism.View{Profile: jobsProfile, Journal: "retain_forever"}
	for _, tag := range slices.Sorted(maps.Keys(routes)) {
		paid.Routes = append(paid.Routes, organism.ViewRoute{
			Tag: tag, Handler: strings.ReplaceAll(tag, ".", "-"), Work: routes[tag].agent + "/" + routes[tag].tool,
		})
	}

	views := []organism.View{paid}
	if c.Organism == "" {
		return views, nil
	}
	o, err := organism.Load(c.OrganismFile())
	if err != nil {
		return nil, advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}
	return append(views, o.Views()...), nil
}

// checkOrganism finds what the organism's file alone does not show: a listener
// whose tool, or model, the configuration lacks.
func (c *Node) checkOrganism() (wrong []error) {
	if c.Organism == "" {
		return nil
	}
	o, err := organism.Load(c.OrganismFile())
	if err != nil {
		return []error{advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)}
	}
	slots, err := c.slots()
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

// slots are the tools that the configuration declares, as AGENT/TOOL.
func (c *Node) slots() (all []string, err error) {
	installed, err := c.installed()
	if err != nil {
		return nil, err
	}
	builtIn, err := builtin.BuiltIn(c.Config, c.Level)
	if err != nil {
		return nil, err
	}

	for _, in := range installed {
		m, err := manifest.Read(filepath.Join(in.Dir, manifest.FileName))
		if err != nil {
			return nil, advice.Usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", in.Dir, err)
		}
		for _, tool := range in.Tools {
			all = append(all, m.ID+"/"+tool)
		}
	}

	for _, spec := range builtIn {
		for _, tool := range spec.Tools {
			all = append(all, spec.ID+"/"+tool)
		}
	}

	return all, nil
}
