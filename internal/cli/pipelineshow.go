package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
)

type pipelineCmd struct {
	Show     pipelineShowCmd     `cmd:"" help:"Show the profiles, and what each may reach."`
	Messages pipelineMessagesCmd `cmd:"" help:"Show what agents said to each other."`
}

type pipelineShowCmd struct {
	Profile string `help:"Only this one."`
	SVG     string `help:"Draw it to this file." placeholder:"FILE"`
	JSON    bool   `help:"Print JSON."`
}

// Run shows the tables as the node will build them: that of paid jobs, and
// those of the organism.
func (c pipelineShowCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := openNode(s, g)
	if err != nil {
		return err
	}
	views, err := conf.profiles()
	if err != nil {
		return err
	}
	if c.Profile != "" {
		var kept []organism.View
		for _, v := range views {
			if v.Profile == c.Profile {
				kept = append(kept, v)
			}
		}
		if views = kept; len(views) == 0 {
			return advice.Usage("lightwork pipeline show lists all", "no profile %q", c.Profile)
		}
	}
	if c.SVG != "" {
		if err := os.WriteFile(c.SVG, organism.Draw(views), 0o644); err != nil {
			return err
		}
	}
	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := printProfile(s, v); err != nil {
			return err
		}
	}
	return nil
}

func printProfile(s *app.Streams, v organism.View) error {
	fmt.Fprintf(s.Out, "profile %s, journal %s", v.Profile, v.Journal)
	if v.Organism != "" {
		fmt.Fprintf(s.Out, ", organism %s", v.Organism)
	}
	fmt.Fprintln(s.Out)
	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "  TAG\tHANDLER\tDOES\tMAY SEND TO")
	for _, r := range v.Routes {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", r.Tag, r.Handler, r.Work, strings.Join(r.Peers, " "))
	}
	return w.Flush()
}

// profiles are the tables of the configuration.
func (c *node) profiles() ([]organism.View, error) {
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
func (c *node) checkOrganism() (wrong []error) {
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
	if _, err := accounts(o); err != nil {
		wrong = append(wrong, advice.Usage("name an account of this machine", "%s: %w", c.OrganismFile(), err))
	}
	for _, l := range o.Listeners {
		switch {
		case l.Agent != nil && (endpoint(c.Config) == nil || c.Model.Name == ""):
			wrong = append(wrong, advice.Usage("give the endpoint under model: base_url and name", "%s: listener %s thinks, and no model is configured", c.OrganismFile(), l.Name))
		case asksModel(c.Config, l.Handler):
			wrong = append(wrong, advice.Usage(thinkHint, "%s: listener %s: %s asks the language model, which only agents do", c.OrganismFile(), l.Name, l.Handler))
		case l.Agent == nil && l.Handler != unfoldTool && !slices.Contains(slots, l.Handler):
			wrong = append(wrong, advice.Usage("under agents, name the agent's folder and the tool", "%s: listener %s: no agent of the configuration has %s", c.OrganismFile(), l.Name, l.Handler))
		}
	}
	return wrong
}

// thinkHint is for who gives a tool the way to the language model.
const thinkHint = "give the listener handler: agent and an agent block (docs/build-agents/thinking-agents.md)"

// asksModel reports whether a tool, as AGENT/TOOL, is a way to the language model.
func asksModel(c *config.Config, ref string) bool {
	tool, ok := strings.CutPrefix(ref, text.ID+"/")
	return ok && text.AsksModel(endpoint(c), tool)
}

// slots are the tools that the configuration declares, as AGENT/TOOL.
func (c *node) slots() (all []string, err error) {
	installed, err := c.installed()
	if err != nil {
		return nil, err
	}
	builtIn, err := builtIn(c.Config, c.level)
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
