package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
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
func (b buyerResumeCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if err := b.check(); err != nil {
		return err
	}
	return withBuyer(ctx, s, g, func(ctx context.Context, n *buyerNode) error {
		if strings.HasPrefix(b.ID, panelPrefix) {
			p, err := findPanel(ctx, n.store, b.ID)
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
			p, err := find(ctx, n.store, b.ID)
			if err != nil {
				return err
			}
			ids = []string{p.RequestID}
		}
		if len(ids) == 0 {
			fmt.Fprintln(s.err, "lightwork: no purchase is open")
			return nil
		}
		if b.outputs != (outputs{}) && len(ids) > 1 {
			return usage("name the purchase", "--out and --files are for one purchase, and %d are open", len(ids))
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
func openOrders(ctx context.Context, n *buyerNode) ([]string, error) {
	ids, err := n.store.OpenPanels(ctx)
	if err != nil {
		return nil, err
	}
	single, err := n.store.OpenPurchases(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range single {
		p, err := n.store.Purchase(ctx, id)
		if err != nil {
			return nil, err
		}
		if p.Member == nil {
			ids = append(ids, id)
		}
	}
	orders, err := n.store.OpenOrders(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range orders {
		order, err := n.store.PlacedOrder(ctx, id)
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
func follow(ctx context.Context, s *streams, n *buyerNode, id string, out outputs, asJSON bool) error {
	show := newTimeline(s.err)
	p, err := n.client.FollowOrder(ctx, id, show.step)
	if p.RequestID == "" { // it did not come so far as to read it
		if stored, serr := n.store.Purchase(context.WithoutCancel(ctx), id); serr == nil {
			p = stored
		}
	}
	if err == nil {
		err = out.write(ctx, n, p)
		switch {
		case err != nil || out.Out == "":
		case p.ReceiptID == "" && p.ResultEvent == nil:
			fmt.Fprintf(s.err, "lightwork: nothing is in %s: this purchase left no signed result\n", printable(out.Out))
		case p.ReceiptID == "":
			fmt.Fprintf(s.err, "lightwork: what was asked and answered is in %s; there is no receipt, so lightwork-verify proves nothing by it\n", printable(out.Out))
		case p.Hidden != nil:
			fmt.Fprintf(s.err, "lightwork: the bundle is in %s; what was asked and answered is encrypted, and %s %s can prove all but that\n", printable(out.Out), program("lightwork-verify"), shellWord(out.Out))
		default:
			fmt.Fprintf(s.err, "lightwork: the bundle is in %s; anybody can check it: %s %s\n", printable(out.Out), program("lightwork-verify"), shellWord(out.Out))
		}
	}
	if asJSON {
		if jerr := printJSON(s.out, viewOf(p)); jerr != nil {
			return jerr
		}
	} else if p.Output != nil {
		showOutput(s.out, p)
	}
	if p.RequestID != "" {
		id = p.RequestID // of the provider that was asked last
	}
	again := "lightwork buyer resume " + short(id)
	switch {
	case err == nil:
		return unmet(p)
	case !p.State.Terminal() && ctx.Err() != nil:
		return &codedError{exitOpen, "lightwork buyer cancel " + short(id) + " asks the provider to stop it", fmt.Errorf("interrupted; %s: %s", left(p), again)}
	case !p.State.Terminal():
		return &codedError{exitOpen, firstText(nextStep(err, short(id)), again), err}
	case errors.Is(err, buyer.ErrOrderOpen):
		return &codedError{exitOpen, nextStep(err, short(id)), err}
	case errors.Is(err, buyer.ErrFailed) && p.State == buyer.StateFailed:
		err = fmt.Errorf("%w: %s", buyer.ErrFailed, p.Reason)
	}
	if back := cameBack(p); back != "" {
		return hinted(fmt.Errorf("%w; %s", err, back), "lightwork buyer show "+short(id))
	}
	if strings.HasPrefix(p.Reason, string(provider.CodeBidTooLow)+":") {
		return hinted(err, "raise --max-sats; nothing was paid")
	}
	next := "lightwork buyer show " + short(id)
	if p.State == buyer.StateFailed && p.SealedEvent != nil && p.Output == nil && p.Attempt != nil {
		next = "lightwork buyer dispute " + short(id) + " shows anybody what was delivered"
	}
	if p.State == buyer.StateFailed && p.Attempt == nil && p.Engagement == nil {
		next = "nothing was paid; " + next
	}
	return hinted(err, firstText(budgetHint(p.Reason), next))
}

// cameBack says what our own wallet has seen of the refund of a purchase that ended
// without its result; "" where none was due. The reason of the purchase is older: it
// is what the provider said when it began to pay back.
func cameBack(p buyer.Purchase) string {
	switch {
	case p.RefundMsats > 0:
		return msats(p.RefundMsats) + " came back to our wallet"
	case buyer.RefundDue(p):
		return "our wallet has not seen it come back yet, lightwork buyer resume " + short(p.RequestID) + " looks again"
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
		return msats(v.HeldMsats) + " are held, the job goes on"
	case v.PaidMsats > 0:
		return msats(v.PaidMsats) + " are paid, the job goes on"
	}
	return "nothing is paid, the request is out"
}

func writeBundle(ctx context.Context, n *buyerNode, id, out string) error {
	p, err := n.store.Purchase(ctx, id)
	if err != nil {
		return err
	}
	b, err := buyer.WorkOf(ctx, n.store, p)
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
