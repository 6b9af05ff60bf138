package organism

import (
	"fmt"
	"os"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/node"
)

// PipelineCmd is lightwork pipeline.
type PipelineCmd struct {
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
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	views, err := node.AgentsOf(conf).Profiles()
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
