package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

type jobsTraceCmd struct {
	ID   string `arg:"" help:"Any id or hash of the job, or its beginning: request, event, job hash, thread, call, directive, session, payment hash, receipt."`
	JSON bool   `help:"Print JSON."`
}

// TraceView is a job's trace as --json shows it.
type TraceView struct {
	Role      string              `json:"role"` // provider or buyer: whose database
	RequestID string              `json:"request_id"`
	Names     map[string][]string `json:"names"`
	Lines     []traceLineView     `json:"timeline"`
}

type traceLineView struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

// Run looks into the databases of both roles.
func (c jobsTraceCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if len(c.ID) < node.MinName {
		return advice.Usage("lightwork jobs list and lightwork buyer list show the ids", "%q is too short: at least %d characters", c.ID, node.MinName)
	}
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	found, err := conf.Databases().Trace(ctx, c.ID)
	if err != nil {
		return err
	}
	all := []TraceView{}
	for _, t := range found {
		all = append(all, viewOfTrace(t))
	}
	if len(all) == 0 {
		return advice.Usage("lightwork jobs list and lightwork buyer list show the ids", "no job here has the id %q", c.ID)
	}
	if c.JSON {
		return app.PrintJSON(s.Out, all)
	}

	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		if err := v.print(s); err != nil {
			return err
		}
	}

	return nil
}

func viewOfTrace(t node.TracedJob) TraceView {
	v := TraceView{Role: t.Role, RequestID: t.RequestID, Names: t.Names, Lines: []traceLineView{}}
	for _, l := range t.Lines {
		v.Lines = append(v.Lines, traceLineView{At: l.At, Kind: l.Kind, Text: l.Text})
	}
	return v
}

func (v TraceView) print(s *app.Streams) error {
	what := map[string]string{"provider": "sold", "buyer": "bought"}[v.Role]
	w := tabwriter.NewWriter(s.Out, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\n", what, v.RequestID)

	for _, kind := range slices.Sorted(maps.Keys(v.Names)) {
		for _, value := range v.Names[kind] {
			fmt.Fprintf(w, "  %s\t%s\n", kind, display.Printable(value))
		}
	}

	if err := w.Flush(); err != nil {
		return err
	}

	w = tabwriter.NewWriter(s.Out, 2, 8, 2, ' ', 0)
	var began time.Time
	for i, l := range v.Lines {
		if i == 0 {
			began = l.At
			fmt.Fprintf(w, "%s\n", l.At.Local().Format(time.DateTime))
		}
		fmt.Fprintf(w, "%8.2fs\t%s\t%s\n", l.At.Sub(began).Seconds(), l.Kind, display.Printable(l.Text))
	}

	return w.Flush()
}
