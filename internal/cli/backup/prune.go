package backup

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// PruneCmd is lightwork prune.
type PruneCmd struct {
	DryRun       bool `help:"Say what would go, and delete nothing."`
	ClockIsRight bool `help:"Prune although the clock has moved far: it is right."`
	JSON         bool `help:"Print JSON."`
}

// plannedPart is what would go of one part, as --json shows it.
type plannedPart struct {
	Part    string `json:"part"`
	Jobs    int    `json:"jobs"`
	Bytes   int64  `json:"bytes"`
	Guarded int    `json:"guarded_jobs"`
}

// Run prunes what the provider's quotes no longer promise: the running node does it, or
// where none runs, this command.
func (c PruneCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.plan(ctx, s, conf.Databases())
	}

	done, err := conf.Databases().Prune(ctx, c.ClockIsRight)
	if err != nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, done)
	}
	fmt.Fprintf(s.Out, "%s of jobs pruned, %s of contents\n", display.Count(int64(done.Parts), "part"), display.Count(done.Bytes, "byte"))
	if done.BlobsWait {
		fmt.Fprintln(s.Err, "lightwork: some blobs are still on blob servers; the running provider asks them again every hour")
	}
	return nil
}

// plan prints what would go, and why the rest of what is over stays.
func (c PruneCmd) plan(ctx context.Context, s *app.Streams, d node.Databases) error {
	found, err := d.PrunePlan(ctx, c.ClockIsRight)
	if err != nil {
		return err
	}
	if c.JSON {
		list := []plannedPart{}
		for _, p := range found {
			list = append(list, plannedPart(p))
		}
		return app.PrintJSON(s.Out, list)
	}

	w := app.NewTable(s.Out, 1, 2, 3)
	fmt.Fprintln(w, "PART\tJOBS\tBYTES\tGUARDED")
	guarded := 0
	for _, p := range found {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", p.Part, p.Jobs, p.Bytes, p.Guarded)
		guarded += p.Guarded
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if guarded > 0 {
		fmt.Fprintln(s.Err, "lightwork: guarded jobs stay as they are: they are open, unsettled, disputed, or something is owed for them")
	}
	return nil
}
