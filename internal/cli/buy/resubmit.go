package buy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	panels "github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

type buyerResubmitCmd struct {
	ID       string `arg:"" help:"A purchase or a panel that has ended (id or its beginning)."`
	Provider string `help:"Buy from this provider now (npub or hex); the same as before if left out." placeholder:"KEY"`
	most
	purchase.Outputs
	JSON bool `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerResubmitCmd) Help() string {
	return "A new job and a new payment: the old one must have ended, and what was paid for it is not made good. Without --max-sats it may cost as much as before. " + buyerSubmitCmd{}.Help()
}

// Run orders the same job once more.
func (b buyerResubmitCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if err := b.Check(); err != nil {
		return err
	}
	if _, _, err := b.limit(); err != nil {
		return err
	}

	key := ""
	if b.Provider != "" {
		var err error
		if key, err = receipts.ParseKey(b.Provider); err != nil {
			return advice.Usage("an npub1... or 64 hex digits", "--provider: %w", err)
		}
	}

	return purchase.WithBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if strings.HasPrefix(b.ID, panels.Prefix) {
			return b.panel(ctx, s, n)
		}
		old, err := purchase.Find(ctx, n.Purchases, b.ID)
		if err != nil {
			return err
		}
		if !old.State.Terminal() {
			return advice.Usage("lightwork buyer resume "+display.Short(old.RequestID)+" goes on with it", "%s is still open (%s): its payment may yet be made", display.Short(old.RequestID), old.State)
		}

		o, err := buyer.OrderOf(old)
		if err != nil {
			return err
		}
		if o.Tree, err = buyer.TreeOf(ctx, n.Client, old); err != nil {
			return notPlaced(err)
		}
		if limit, given, _ := b.limit(); given {
			o.MaxMsats = limit
		}
		if err := n.MayPay(ctx, o.MaxMsats); err != nil {
			return err
		}
		if err := b.retarget(ctx, n, &o, key); err != nil {
			return err
		}

		p, err := n.Client.Place(ctx, o)
		if err != nil {
			return notPlaced(err)
		}
		if v := purchase.ViewOf(old); v.PaidMsats > 0 {
			fmt.Fprintf(s.Err, "lightwork: %s was paid for %s, and is not made good by this\n", display.Msats(v.PaidMsats), display.Short(old.RequestID))
		}
		return follow(ctx, s, n, p.RequestID, b.Outputs, b.JSON)
	})
}

// retarget takes the provider's present price and node; a provider that is not
// announced any more is asked as before.
func (b buyerResubmitCmd) retarget(ctx context.Context, n *node.Buyer, o *buyer.Order, key string) error {
	other := key != "" && key != o.Provider
	if other {
		o.Provider, o.PayeeNode = key, ""
	}
	again := buyerSubmitCmd{Schema: o.SchemaID, Mode: o.Mode}
	list, err := n.Client.Candidates(ctx, *o)
	if err != nil {
		return again.noCandidates(err)
	}
	if len(list) == 0 && !other {
		return nil
	}

	first, err := again.best(list, o.Provider)
	if err != nil {
		return err
	}
	*o = first.Order
	return nil
}

// panel gives the job of a panel to the same providers once more.
func (b buyerResubmitCmd) panel(ctx context.Context, s *app.Streams, n *node.Buyer) error {
	if b.Provider != "" {
		return advice.Usage("lightwork buyer submit --to KEY, repeated, names others", "--provider is for a job that one provider did, and %s is a panel", b.ID)
	}
	old, err := panels.Find(ctx, n.Purchases, b.ID)
	if err != nil {
		return err
	}
	v, _, err := panels.ViewOf(ctx, n.Purchases, old)
	if err != nil {
		return err
	}
	if v.State != "done" && v.State != "failed" {
		return advice.Usage("lightwork buyer resume "+old.ID+" goes on with it", "%s is still %s: it may yet pay", old.ID, v.State)
	}

	o, err := panel.OrderOf(ctx, n.Purchases, old)
	if err != nil {
		return err
	}
	seat, err := n.Purchases.Purchase(ctx, old.Members[0].RequestID)
	if err != nil {
		return err
	}
	if o.Tree, err = buyer.TreeOf(ctx, n.Client, seat); err != nil { // the same files for all
		return notPlaced(err)
	}
	if limit, given, _ := b.limit(); given {
		o.MaxMsats = limit
	}
	if err := n.MayPay(ctx, o.MaxMsats); err != nil {
		return err
	}
	list, err := n.Client.Discover(ctx, o.SchemaID, "")
	if err != nil {
		return advice.Hint(err, "lightwork doctor checks the relays")
	}

	for i, seat := range o.Members { // present prices; who is not announced any more is asked as before
		if at := slices.IndexFunc(list, func(l buyer.Listing) bool { return l.Provider == seat.Provider }); at >= 0 {
			o.Members[i] = list[at]
		}
	}

	p, err := n.Panels.Place(ctx, o)
	if err != nil {
		return notPlaced(err)
	}
	if v.PaidMsats > 0 {
		fmt.Fprintf(s.Err, "lightwork: %s was paid for %s, and is not made good by this\n", display.Msats(v.PaidMsats), old.ID)
	}
	return panels.Follow(ctx, s, n, p.ID, b.Outputs, b.JSON)
}
