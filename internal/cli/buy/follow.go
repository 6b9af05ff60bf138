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
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/buying"
	"github.com/lightwork-market/lightwork/provider"
)

// follow carries a purchase to its end, tells what happens on stderr, and prints the
// outcome on stdout. While another process works on it, it looks on.
func follow(ctx context.Context, s *app.Streams, n *node.Buyer, id string, out purchase.Outputs, asJSON bool) error {
	p, err := carry(ctx, s, n, id, purchase.NewTimeline(s.Err).Step)
	return finish(ctx, s, n.Purchases, id, p, out, asJSON, err)
}

// carry works on a purchase, or looks on while another process does: should that one
// end, it is ours.
func carry(ctx context.Context, s *app.Streams, n *node.Buyer, id string, tell func(buyer.Progress)) (buyer.Purchase, error) {
	for {
		p, err := n.Orders.FollowOrder(ctx, id, tell)
		if errors.Is(err, lease.ErrHeld) {
			purchase.TellWorker(s, id, err)
			p, err = n.Purchases.WatchOrder(ctx, id, tell)
		}
		if !errors.Is(err, buying.ErrIdle) {
			return p, err
		}
	}
}

// finish prints what came of following a purchase.
func finish(ctx context.Context, s *app.Streams, bought *node.Purchases, id string, p buyer.Purchase, out purchase.Outputs, asJSON bool, err error) error {
	if p.RequestID == "" { // it did not come so far as to read it
		if stored, serr := bought.Purchase(context.WithoutCancel(ctx), id); serr == nil {
			p = stored
		}
	}

	if err == nil {
		err = out.Write(ctx, bought, p)
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
	case errors.Is(err, buying.ErrIdle):
		return advice.Unfinished(fmt.Errorf("%s: %w", display.Short(id), err), again+" goes on with it")
	case !p.State.Terminal() && ctx.Err() != nil:
		return advice.Unfinished(fmt.Errorf("interrupted; %s: %s", purchase.Left(p), again), "lightwork buyer cancel "+display.Short(id)+" asks the provider to stop it")
	case !p.State.Terminal():
		return advice.Unfinished(err, cmp.Or(app.NextStep(err, display.Short(id)), again))
	case errors.Is(err, buyer.ErrOrderOpen):
		return advice.Unfinished(err, app.NextStep(err, display.Short(id)))
	case errors.Is(err, buyer.ErrFailed) && p.State == buyer.StateFailed:
		err = fmt.Errorf("%w: %s", buyer.ErrFailed, p.Reason)
	case errors.Is(err, buyer.ErrFailed) && p.State == buyer.StateCanceled:
		err = fmt.Errorf("the purchase was canceled: %s", p.Reason)
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
