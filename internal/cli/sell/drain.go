package sell

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/provider"
)

type providerDrainCmd struct {
	Within time.Duration `help:"End after this time whatever is open: it goes on at the next run." placeholder:"DURATION"`
	Force  bool          `help:"End now, whatever is open."`
	Job    string        `help:"Take no new jobs of this type alone, and say so in the announcement; the provider does not end." placeholder:"ID"`
}

// drainListed bounds the lines of each kind that a drain prints.
const drainListed = 50

// Run lets a running provider end with its last open job, or at the end of its
// time, and lists what it waits for.
func (c providerDrainCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if c.Within < 0 || c.Within > 0 && c.Force {
		return advice.Usage("--within 10m gives open jobs ten minutes, --force none", "--within is a time, and --force gives none")
	}
	if c.Job != "" && (c.Within > 0 || c.Force) {
		return advice.Usage("leave --within and --force out", "--job does not end the provider, so it takes no time")
	}
	cfg, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if c.Job != "" {
		if err := cfg.Admission().DrainJob(c.Job); err != nil {
			return err
		}
		fmt.Fprintln(s.Err, "lightwork:", g.Spell("no new jobs of "+c.Job+" are taken, open ones go on; lightwork provider resume --job "+c.Job+" takes them again"))
		return nil
	}

	var by time.Time
	told := "the provider ends when nothing is open"
	switch {
	case c.Force:
		by, told = time.Now(), "the provider ends now"
	case c.Within > 0:
		by = time.Now().Add(c.Within)
		told += ", at " + by.Local().Format(time.DateTime) + " in any case"
	}

	if err := cfg.Admission().Set(provider.AdmissionDraining, by); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork: draining: no new jobs are taken, and", told)
	return jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
		if store == nil {
			return nil
		}
		left, err := store.LeftOpen(ctx)
		if err != nil {
			return err
		}
		if err := showLeft(ctx, s.Out, store, left); err != nil {
			return err
		}

		if !left.Empty() && !c.Force {
			fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork provider drain lists again; --within DURATION or --force leaves what is open to the next run"))
		}
		return nil
	})
}

// showLeft prints a line for each thing that a drain waits for, and until when.
func showLeft(ctx context.Context, w io.Writer, store *node.Sales, left provider.Left) error {
	for i, id := range left.Jobs {
		if i == drainListed {
			fmt.Fprintf(w, "and %s\n", display.Count(int64(len(left.Jobs)-i), "more job"))
			break
		}
		job, err := store.Job(ctx, id)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "job %s  %s\n", display.Short(id), waitsFor(job))
	}

	for i, r := range left.Refunds {
		if i == drainListed {
			fmt.Fprintf(w, "and %s\n", display.Count(int64(len(left.Refunds)-i), "more refund"))
			break
		}
		fmt.Fprintf(w, "refund of job %s  %s on their way; the buyer's wallet has not taken them yet\n", display.Short(r.RequestID), display.Msats(r.Msats))
	}

	if left.Events > 0 {
		fmt.Fprintf(w, "%s that too few relays have taken\n", display.Count(int64(left.Events), "event"))
	}
	return nil
}

// waitsFor says what an open job waits for.
func waitsFor(j provider.Job) string {
	until := " until " + j.ExpiresAt.Local().Format(time.DateTime)
	if j.Payment != nil && !j.Payment.SettleBy.IsZero() {
		until = ", its payment is held until " + j.Payment.SettleBy.Local().Format(time.DateTime)
	}

	switch {
	case j.State == provider.StateQuoted && j.Engagement != nil && j.Engagement.Receipt == nil:
		return "waits for its engagement fee until " + j.Engagement.ExpiresAt.Local().Format(time.DateTime)
	case j.State == provider.StateQuoted:
		return "waits for its payment" + until
	case j.State == provider.StateDelivering && j.Payment == nil:
		return "is delivered and waits for its payment" + until
	case j.Payment != nil && !j.Payment.SettleBy.IsZero():
		return "is " + string(j.State) + until
	}

	return "is " + string(j.State)
}
