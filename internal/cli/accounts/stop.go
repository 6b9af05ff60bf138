package accounts

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

// StopCmd is lightwork stop-spending.
type StopCmd struct {
	Why  string `help:"The reason, which whoever finds a payment waiting is shown." placeholder:"TEXT"`
	JSON bool   `help:"Print JSON."`
}

// Help is shown below the flags.
func (StopCmd) Help() string {
	return "It counts at once for every process that uses this data folder, and over restarts, until lightwork resume-spending. Payments that a wallet was told of before go on to their end; nothing is paid twice, and money that comes in is taken."
}

// Run writes the owner's word, and counts what it keeps back.
func (c StopCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if err := n.StopSpending(c.Why); err != nil {
		return err
	}

	kept, err := n.KeptBack(ctx)
	if err != nil { // a database that cannot be read stops no more than this
		s.Log.Warn("spending is stopped; what waits cannot be counted", "err", err)
	}
	if c.JSON {
		return app.PrintJSON(s.Out, map[string]any{"spending_stopped": true, "kept_back": kept})
	}
	fmt.Fprintln(s.Out, display.Printable(n.SpendingStopped().Error()))
	if kept.Purchases+kept.InFlight > 0 {
		fmt.Fprintf(s.Out, "%d purchases wait, and %d that a wallet was told of go on: %s at most\n", kept.Purchases, kept.InFlight, display.Msats(kept.BuyingMsats))
	}
	if kept.Refunds > 0 {
		fmt.Fprintf(s.Out, "%d refunds have not ended: %s\n", kept.Refunds, display.Msats(kept.RefundsMsats))
	}
	fmt.Fprintln(s.Out, g.Spell("lightwork resume-spending lets money go again"))
	return nil
}

// ResumeCmd is lightwork resume-spending.
type ResumeCmd struct{}

// Run takes the owner's word back.
func (ResumeCmd) Run(s *app.Streams, g *app.Globals) error {
	n, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if err := n.ResumeSpending(); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, g.Spell("money may leave again; lightwork buyer resume goes on with purchases that nobody follows"))
	return nil
}
