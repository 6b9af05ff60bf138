package buy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

type buyerDisputeCmd struct {
	ID   string `arg:"" help:"The request id or its beginning."`
	Out  string `help:"The folder, which must be new or empty." required:"" placeholder:"DIR"`
	JSON bool   `help:"Print JSON."`
}

// Run gathers the evidence and says what a stranger will find in it.
func (b buyerDisputeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if err := purchase.CheckOut(b.Out); err != nil {
		return err
	}

	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		if store == nil {
			return advice.Usage("", "nothing was bought yet")
		}
		p, err := store.FindPurchase(ctx, b.ID)
		if err != nil {
			return advice.Usage("lightwork buyer list shows the ids", "%w", err)
		}
		d, err := buyer.DisputeOf(ctx, store, p)
		if errors.Is(err, buyer.ErrNothingPaid) {
			return advice.Usage("", "%w", err)
		}
		if err != nil {
			return err
		}
		if d.Outputs, err = outputsOf(s, g, p); err != nil {
			return err
		}

		for name, data := range d.Files() {
			path := filepath.Join(b.Out, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				return err
			}
		}

		ruling := d.Rule(receipts.Pins{})
		if b.JSON {
			return app.PrintJSON(s.Out, ruling)
		}
		for _, f := range ruling.Findings {
			fmt.Fprintf(s.Out, "%-12s  %s%s\n", f.State, f.What, inBrackets(display.Printable(f.Reason)))
		}
		fmt.Fprintf(s.Out, "%s: %s\n", ruling.Verdict, display.Printable(ruling.Reason))
		fmt.Fprintf(s.Err, "lightwork: anybody can check it: %s --dispute %s\n", display.Program("lightwork-verify"), display.ShellWord(b.Out))
		return nil
	})
}

// outputsOf is what our wallet sent for a purchase on the chain; nil on other rails.
func outputsOf(s *app.Streams, g *app.Globals, p buyer.Purchase) ([]byte, error) {
	if p.Payment == nil || p.Payment.Outpoints == "" {
		return nil, nil
	}
	c, err := app.Open(s, g)
	if err != nil {
		return nil, err
	}
	return receipts.ChainPayment{
		Outputs: p.Payment.Outpoints, Sats: (p.Payment.AmountMsats + 999) / 1000,
		Confirmations: c.Confirmations(),
	}.File()
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
