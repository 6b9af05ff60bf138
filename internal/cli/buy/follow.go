package buy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/provider"
)

type buyerResumeCmd struct {
	ID string `arg:"" optional:"" help:"One purchase (id or its beginning); all open ones if left out."`
	purchase.Outputs
	JSON bool `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerResumeCmd) Help() string { return buyerSubmitCmd{}.Help() }

// Run goes on with open purchases, one after the other.
func (b buyerResumeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if err := b.Check(); err != nil {
		return err
	}

	return purchase.WithBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if strings.HasPrefix(b.ID, panel.Prefix) {
			p, err := panel.Find(ctx, n.Purchases, b.ID)
			if err != nil {
				return err
			}
			return panel.Follow(ctx, s, n, p.ID, b.Outputs, b.JSON)
		}

		ids, err := openOrders(ctx, n)
		if err != nil {
			return err
		}
		if b.ID != "" {
			p, err := purchase.Find(ctx, n.Purchases, b.ID)
			if err != nil {
				return err
			}
			ids = []string{p.RequestID}
		}

		if len(ids) == 0 {
			fmt.Fprintln(s.Err, "lightwork: no purchase is open")
			return nil
		}
		if b.Outputs != (purchase.Outputs{}) && len(ids) > 1 {
			return advice.Usage("name the purchase", "--out and --files are for one purchase, and %d are open", len(ids))
		}

		var last error
		for _, id := range ids {
			goOn := follow
			if strings.HasPrefix(id, panel.Prefix) {
				goOn = panel.Follow
			}
			if err := goOn(ctx, s, n, id, b.Outputs, b.JSON); err != nil {
				last = err
			}
			if ctx.Err() != nil {
				break
			}
		}

		return last
	})
}

// openOrders are the ids of open panels, and of the requests to follow that belong to
// none.
func openOrders(ctx context.Context, n *node.Buyer) ([]string, error) {
	panels, err := n.Purchases.OpenPanels(ctx)
	if err != nil {
		return nil, err
	}
	single, err := n.Purchases.Unfinished(ctx)
	return append(panels, single...), err
}

// follow carries a purchase to its end, tells what happens on stderr, and
// prints the outcome on stdout.
func follow(ctx context.Context, s *app.Streams, n *node.Buyer, id string, out purchase.Outputs, asJSON bool) error {
	show := purchase.NewTimeline(s.Err)
	p, err := n.Client.FollowOrder(ctx, id, show.Step)
	if p.RequestID == "" { // it did not come so far as to read it
		if stored, serr := n.Purchases.Purchase(context.WithoutCancel(ctx), id); serr == nil {
			p = stored
		}
	}

	if err == nil {
		err = out.Write(ctx, n, p)
		switch {
		case err != nil || out.Out == "":
		case p.ReceiptID == "" && p.ResultEvent == nil:
			fmt.Fprintf(s.Err, "lightwork: nothing is in %s: this purchase left no signed result\n", display.Printable(out.Out))
		case p.ReceiptID == "":
			fmt.Fprintf(s.Err, "lightwork: what was asked and answered is in %s; there is no receipt, so lightwork-verify proves nothing by it\n", display.Printable(out.Out))
		case p.Hidden != nil:
			fmt.Fprintf(s.Err, "lightwork: the bundle is in %s; what was asked and answered is encrypted, and %s %s can prove all but that\n", display.Printable(out.Out), display.Program("lightwork-verify"), display.ShellWord(out.Out))
		default:
			fmt.Fprintf(s.Err, "lightwork: the bundle is in %s; anybody can check it: %s %s\n", display.Printable(out.Out), display.Program("lightwork-verify"), display.ShellWord(out.Out))
		}
	}

	if asJSON {
		if jerr := app.PrintJSON(s.Out, purchase.ViewOf(p)); jerr != nil {
			return jerr
		}
	} else if p.Output != nil {
		purchase.ShowOutput(s.Out, p)
	}

	if p.RequestID != "" {
		id = p.RequestID // of the provider that was asked last
	}

	again := "lightwork buyer resume " + display.Short(id)
	switch {
	case err == nil:
		return purchase.Unmet(p)
	case !p.State.Terminal() && ctx.Err() != nil:
		return advice.Unfinished(fmt.Errorf("interrupted; %s: %s", purchase.Left(p), again), "lightwork buyer cancel "+display.Short(id)+" asks the provider to stop it")
	case !p.State.Terminal():
		return advice.Unfinished(err, cmp.Or(app.NextStep(err, display.Short(id)), again))
	case errors.Is(err, buyer.ErrOrderOpen):
		return advice.Unfinished(err, app.NextStep(err, display.Short(id)))
	case errors.Is(err, buyer.ErrFailed) && p.State == buyer.StateFailed:
		err = fmt.Errorf("%w: %s", buyer.ErrFailed, p.Reason)
	}

	if back := purchase.CameBack(p); back != "" {
		return advice.Hint(fmt.Errorf("%w; %s", err, back), "lightwork buyer show "+display.Short(id))
	}
	if strings.HasPrefix(p.Reason, string(provider.CodeBidTooLow)+":") {
		return advice.Hint(err, "raise --max-sats; nothing was paid")
	}

	next := "lightwork buyer show " + display.Short(id)
	if p.State == buyer.StateFailed && p.SealedEvent != nil && p.Output == nil && p.Attempt != nil {
		next = "lightwork buyer dispute " + display.Short(id) + " shows anybody what was delivered"
	}
	if p.State == buyer.StateFailed && p.Attempt == nil && p.Engagement == nil {
		next = "nothing was paid; " + next
	}
	return advice.Hint(err, cmp.Or(budgetHint(p.Reason), next))
}

// budgetHint says how a payment fits the budget that it went over; "" for any
// other reason. The purchase keeps the words of buyer.BudgetError alone.
func budgetHint(reason string) string {
	keys := map[string]string{"day": "buyer.max_msats_per_day", "provider": "buyer.max_msats_per_provider_and_day"}
	for limit, key := range keys {
		if strings.HasPrefix(strings.TrimPrefix(reason, buyer.CodeOverBudget+": "), "the "+limit+" budget has ") {
			return "nothing was paid; lower --max-sats, all of which a payment may take until it has ended, or raise " + key
		}
	}
	return ""
}
