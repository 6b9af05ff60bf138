package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

type buyerResumeCmd struct {
	ID string `arg:"" optional:"" help:"One purchase (id or its beginning); all open ones if left out."`
	outputs
	JSON bool `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerResumeCmd) Help() string { return buyerSubmitCmd{}.Help() }

// Run goes on with open purchases, one after the other.
func (b buyerResumeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if err := b.check(); err != nil {
		return err
	}

	return withBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if strings.HasPrefix(b.ID, panelPrefix) {
			p, err := findPanel(ctx, n.Store, b.ID)
			if err != nil {
				return err
			}
			return followPanel(ctx, s, n, p.ID, b.outputs, b.JSON)
		}

		ids, err := openOrders(ctx, n)
		if err != nil {
			return err
		}
		if b.ID != "" {
			p, err := find(ctx, n.Store, b.ID)
			if err != nil {
				return err
			}
			ids = []string{p.RequestID}
		}

		if len(ids) == 0 {
			fmt.Fprintln(s.Err, "lightwork: no purchase is open")
			return nil
		}
		if b.outputs != (outputs{}) && len(ids) > 1 {
			return advice.Usage("name the purchase", "--out and --files are for one purchase, and %d are open", len(ids))
		}

		var last error
		for _, id := range ids {
			goOn := follow
			if strings.HasPrefix(id, panelPrefix) {
				goOn = followPanel
			}
			if err := goOn(ctx, s, n, id, b.outputs, b.JSON); err != nil {
				last = err
			}
			if ctx.Err() != nil {
				break
			}
		}

		return last
	})
}

// openOrders are the ids of open panels, and of open purchases that are no seat
// of one.
func openOrders(ctx context.Context, n *node.Buyer) ([]string, error) {
	ids, err := n.Store.OpenPanels(ctx)
	if err != nil {
		return nil, err
	}
	single, err := n.Store.OpenPurchases(ctx)
	if err != nil {
		return nil, err
	}

	for _, id := range single {
		p, err := n.Store.Purchase(ctx, id)
		if err != nil {
			return nil, err
		}
		if p.Member == nil {
			ids = append(ids, id)
		}
	}

	orders, err := n.Store.OpenOrders(ctx)
	if err != nil {
		return nil, err
	}

	for _, id := range orders {
		order, err := n.Store.PlacedOrder(ctx, id)
		if err != nil {
			return nil, err
		}
		if last := order.Requests[len(order.Requests)-1].RequestID; !slices.Contains(ids, last) {
			ids = append(ids, last) // the next provider is still to be asked
		}
	}

	return ids, nil
}

// follow carries a purchase to its end, tells what happens on stderr, and
// prints the outcome on stdout.
func follow(ctx context.Context, s *app.Streams, n *node.Buyer, id string, out outputs, asJSON bool) error {
	show := newTimeline(s.Err)
	p, err := n.Client.FollowOrder(ctx, id, show.step)
	if p.RequestID == "" { // it did not come so far as to read it
		if stored, serr := n.Store.Purchase(context.WithoutCancel(ctx), id); serr == nil {
			p = stored
		}
	}

	if err == nil {
		err = out.write(ctx, n, p)
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
		if jerr := app.PrintJSON(s.Out, viewOf(p)); jerr != nil {
			return jerr
		}
	} else if p.Output != nil {
		showOutput(s.Out, p)
	}

	if p.RequestID != "" {
		id = p.RequestID // of the provider that was asked last
	}

	again := "lightwork buyer resume " + display.Short(id)
	switch {
	case err == nil:
		return unmet(p)
	case !p.State.Terminal() && ctx.Err() != nil:
		return advice.Unfinished(fmt.Errorf("interrupted; %s: %s", left(p), again), "lightwork buyer cancel "+display.Short(id)+" asks the provider to stop it")
	case !p.State.Terminal():
		return advice.Unfinished(err, cmp.Or(app.NextStep(err, display.Short(id)), again))
	case errors.Is(err, buyer.ErrOrderOpen):
		return advice.Unfinished(err, app.NextStep(err, display.Short(id)))
	case errors.Is(err, buyer.ErrFailed) && p.State == buyer.StateFailed:
		err = fmt.Errorf("%w: %s", buyer.ErrFailed, p.Reason)
	}

	if back := cameBack(p); back != "" {
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

// cameBack says what our own wallet has seen of the refund of a purchase that ended
// without its result; "" where none was due. The reason of the purchase is older: it
// is what the provider said when it began to pay back.
func cameBack(p buyer.Purchase) string {
	switch {
	case p.RefundMsats > 0:
		return display.Msats(p.RefundMsats) + " came back to our wallet"
	case buyer.RefundDue(p):
		return "our wallet has not seen it come back yet, lightwork buyer resume " + display.Short(p.RequestID) + " looks again"
	}
	return ""
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

// left says what an interrupted purchase goes on as without us.
func left(p buyer.Purchase) string {
	switch v := viewOf(p); {
	case v.HeldMsats > 0:
		return display.Msats(v.HeldMsats) + " are held, the job goes on"
	case v.PaidMsats > 0:
		return display.Msats(v.PaidMsats) + " are paid, the job goes on"
	}
	return "nothing is paid, the request is out"
}

func writeBundle(ctx context.Context, n *node.Buyer, id, out string) error {
	p, err := n.Store.Purchase(ctx, id)
	if err != nil {
		return err
	}
	b, err := buyer.WorkOf(ctx, n.Store, p)
	if err != nil {
		return err
	}
	return writeFolder(out, b)
}

// checkOut wants a folder that is new or empty; "" is fine.
func checkOut(dir string) error { return checkFolder("--out", dir) }

// writeFolder writes a bundle into a new or empty folder.
func writeFolder(dir string, b *receipts.Bundle) error {
	if err := checkOut(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for name, data := range b.Files() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
