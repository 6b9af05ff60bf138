package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/internal/kernel"
)

type jobsTraceCmd struct {
	ID   string `arg:"" help:"Any id or hash of the job, or its beginning: request, event, job hash, thread, call, directive, session, payment hash, receipt."`
	JSON bool   `help:"Print JSON."`
}

// traceView is a job's trace as --json shows it.
type traceView struct {
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
func (c jobsTraceCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if len(c.ID) < kernel.MinNamePrefix {
		return usage("lightwork jobs list and lightwork buyer list show the ids", "%q is too short: at least %d characters", c.ID, kernel.MinNamePrefix)
	}
	conf, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	all := []traceView{}
	for _, role := range []string{"provider", "buyer"} {
		k, err := openToRead(ctx, s, conf, role)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		found, err := k.Trace(ctx, c.ID)
		if err := firstError(err, k.Close()); err != nil {
			return err
		}
		for _, t := range found {
			all = append(all, viewOfTrace(role, t))
		}
	}
	if len(all) == 0 {
		return usage("lightwork jobs list and lightwork buyer list show the ids", "no job here has the id %q", c.ID)
	}
	if c.JSON {
		return printJSON(s.out, all)
	}
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := v.print(s); err != nil {
			return err
		}
	}
	return nil
}

func viewOfTrace(role string, t kernel.Trace) traceView {
	v := traceView{Role: role, RequestID: t.RequestID, Names: map[string][]string{}, Lines: []traceLineView{}}
	for kind, values := range t.Names.Names {
		v.Names[string(kind)] = values
	}
	for _, l := range t.Lines {
		v.Lines = append(v.Lines, traceLineView{At: l.At, Kind: l.Kind, Text: l.Text})
	}
	return v
}

func (v traceView) print(s *streams) error {
	what := map[string]string{"provider": "sold", "buyer": "bought"}[v.Role]
	w := tabwriter.NewWriter(s.out, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\n", what, v.RequestID)
	for _, kind := range sortedKeys(v.Names) {
		for _, value := range v.Names[kind] {
			fmt.Fprintf(w, "  %s\t%s\n", kind, printable(value))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(s.out, 2, 8, 2, ' ', 0)
	var began time.Time
	for i, l := range v.Lines {
		if i == 0 {
			began = l.At
			fmt.Fprintf(w, "%s\n", l.At.Local().Format(time.DateTime))
		}
		fmt.Fprintf(w, "%8.2fs\t%s\t%s\n", l.At.Sub(began).Seconds(), l.Kind, printable(l.Text))
	}
	return w.Flush()
}
