// Package buy has the commands of a buyer: discover, submit, follow, cancel, dispute
// and the like.
package buy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cmd is lightwork buyer.
type Cmd struct {
	Discover buyerDiscoverCmd     `cmd:"" help:"List providers, best first, and why."`
	Submit   buyerSubmitCmd       `cmd:"" help:"Buy a job and wait for the result and the receipt."`
	Resubmit buyerResubmitCmd     `cmd:"" help:"Order the job of a purchase that has ended once more."`
	Run      buyerRunCmd          `cmd:"" help:"Go on with purchases, and take those that other commands order, until interrupted."`
	Resume   buyerResumeCmd       `cmd:"" help:"Go on with purchases that were interrupted, all at once."`
	Follow   buyerFollowCmd       `cmd:"" help:"Show what becomes of a purchase, whichever process works on it."`
	Wait     buyerWaitCmd         `cmd:"" help:"Wait until purchases have ended."`
	List     buyerListCmd         `cmd:"" help:"List purchases."`
	Show     buyerShowCmd         `cmd:"" help:"Show one purchase."`
	Panels   panel.BuyerPanelsCmd `cmd:"" help:"List jobs that were given to several providers."`
	Metrics  buyerMetricsCmd      `cmd:"" help:"Print what was bought and spent, for Prometheus."`
	Cancel   buyerCancelCmd       `cmd:"" help:"Ask the provider to stop a job."`
	Dispute  buyerDisputeCmd      `cmd:"" help:"Write a folder that shows what was paid and what came for it."`
}

type buyerListCmd struct {
	Limit int  `help:"How many at most." default:"50"`
	JSON  bool `help:"Print JSON."`
}

// Run lists purchases, newest first.
func (b buyerListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		list, err := purchase.ListPurchases(ctx, store, b.Limit)
		if err != nil {
			return err
		}
		if b.JSON {
			views := make([]purchase.PurchaseView, len(list))
			for i, p := range list {
				views[i] = purchase.ViewOf(p)
				views[i].Output = nil
			}
			return app.PrintJSON(s.Out, views)
		}

		w := app.NewTable(s.Out, 3, 1)
		fmt.Fprintln(w, "ID\tADDED\tSTATE\tJOB TYPE\tPAID\tRECEIPT\tREASON")
		for _, p := range list {
			v := purchase.ViewOf(p)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", display.Short(p.RequestID), p.AddedAt.Local().Format(time.DateTime), p.State, p.SchemaID, v.Money(), display.ShortReceipt(p.ReceiptID), display.OneLine(v.Why()))
		}

		return w.Flush()
	})
}

type buyerShowCmd struct {
	ID   string `arg:"" help:"The purchase (id or its beginning)."`
	JSON bool   `help:"Print JSON."`
}

// Run shows one purchase.
func (b buyerShowCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		if strings.HasPrefix(b.ID, panel.Prefix) {
			return panel.Show(ctx, s, store, b.ID, b.JSON)
		}
		p, err := purchase.Find(ctx, store, b.ID)
		if err != nil {
			return err
		}
		v := purchase.ViewOf(p)
		if b.JSON {
			return app.PrintJSON(s.Out, v)
		}
		fmt.Fprintf(s.Out, "request    %s\nstate      %s\nprovider   %s\njob type   %s\njob hash   %s\nmode       %s\npaid       %s, fee %s\nreceipt    %s\n",
			p.RequestID, strings.TrimSpace(string(p.State)+" "+display.Printable(p.Reason)), display.NPub(p.Provider), p.SchemaID, p.JobHash, cmp.Or(string(v.Mode), "none agreed"), v.Money(), display.Msats(v.FeeMsats), cmp.Or(p.ReceiptID, "none"))
		if v.EngagementMsats > 0 {
			fmt.Fprintf(s.Out, "engagement %s for the attempt, receipt %s\n", display.Msats(v.EngagementMsats), v.EngagementReceipt)
		}
		for _, c := range v.Unproved {
			fmt.Fprintf(s.Out, "not proved %s: %s\n", c.Name, c.Reason)
		}
		if p.RefundMsats > 0 {
			fmt.Fprintf(s.Out, "refunded   %s\n", display.Msats(p.RefundMsats))
		} else if buyer.RefundDue(p) {
			fmt.Fprintf(s.Out, "refunded   nothing yet; lightwork buyer resume %s looks again\n", display.Short(p.RequestID))
		}

		if p.SettledTooEarly && p.RefundMsats == 0 && v.Mode != receipts.ModePrepay { // there it is agreed
			fmt.Fprintln(s.Out, "note       the provider took the money before it delivered")
		}
		if p.Output != nil {
			purchase.ShowOutput(s.Out, p)
		}
		return nil
	})
}

type buyerCancelCmd struct {
	ID         string `arg:"" help:"The purchase (id or its beginning)."`
	WalletLost bool   `help:"Give up a purchase whose payment only a wallet knows of that is lost for good; what it may have cost stays reserved."`
}

// Run asks the provider to stop, and follows until it is known what became of
// the money.
func (b buyerCancelCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return purchase.WithBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if strings.HasPrefix(b.ID, panel.Prefix) && !b.WalletLost {
			return b.panel(ctx, s, n)
		}
		p, err := purchase.Find(ctx, n.Purchases, b.ID)
		if err != nil {
			return err
		}
		if b.WalletLost {
			return b.giveUp(ctx, s, g, n, p)
		}
		id, ended, err := b.wish(ctx, s, n, p.RequestID)
		if ended || err != nil {
			return err
		}
		err = follow(ctx, s, n, id, purchase.Outputs{}, false)
		return b.outcome(ctx, s, n, id, err)
	})
}

// wish asks for the end of the order that a request was made for, at the request that
// counts now: while another process works on the order that may change.
func (b buyerCancelCmd) wish(ctx context.Context, s *app.Streams, n *node.Buyer, id string) (last string, ended bool, err error) {
	for {
		p, err := n.Purchases.Latest(ctx, id)
		if err != nil {
			return "", false, err
		}
		if p.State.Terminal() {
			ended, err := n.Client.EndOrder(ctx, p.RequestID)
			if ended || err != nil {
				fmt.Fprintln(s.Err, "lightwork: no further provider is asked")
				return p.RequestID, true, err
			}
			return "", false, advice.Hint(fmt.Errorf("purchase %s has ended: it is %s", display.Short(p.RequestID), p.State), "lightwork buyer show "+display.Short(p.RequestID))
		}

		err = n.Client.Cancel(ctx, p.RequestID)
		if errors.Is(err, buyer.ErrConflict) && ctx.Err() == nil {
			continue // it has just gone on
		}
		if err != nil {
			return "", false, err
		}
		fmt.Fprintln(s.Err, "lightwork: asked the provider to stop", display.Short(p.RequestID))
		p, err = n.Purchases.Purchase(ctx, p.RequestID)
		return p.RequestID, p.State.Terminal(), err
	}
}

func (b buyerCancelCmd) giveUp(ctx context.Context, s *app.Streams, g *app.Globals, n *node.Buyer, p buyer.Purchase) error {
	if p.State.Terminal() {
		return advice.Hint(fmt.Errorf("purchase %s has ended: it is %s", display.Short(p.RequestID), p.State), "lightwork buyer show "+display.Short(p.RequestID))
	}
	again := g.Spell("lightwork buyer resume " + display.Short(p.RequestID))
	if err := n.Client.GiveUp(ctx, p.RequestID); errors.Is(err, buyer.ErrWalletHere) {
		return advice.Hint(err, "lightwork buyer resume "+display.Short(p.RequestID)+"; of a wallet that is lost, put another in its place in lightwork.yaml first, or backend: none")
	} else if err != nil {
		return err
	}

	p, err := n.Purchases.Purchase(ctx, p.RequestID)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork: given up:", display.Printable(p.Reason))
	fmt.Fprintln(s.Err, "lightwork: should that wallet be found again, configure it, and", again, "goes on")
	return nil
}

// outcome is what following a purchase says, but for one that ends as it was
// asked to: that is no failure.
func (b buyerCancelCmd) outcome(ctx context.Context, s *app.Streams, n *node.Buyer, id string, followed error) error {
	p, err := n.Purchases.Purchase(context.WithoutCancel(ctx), id)
	if err != nil || p.State != buyer.StateCanceled {
		return followed
	}
	last := display.Printable(p.Reason)
	if back := purchase.CameBack(p); back != "" {
		last += "; " + back
	}
	fmt.Fprintln(s.Err, "lightwork:", last)
	return nil
}

func (b buyerCancelCmd) panel(ctx context.Context, s *app.Streams, n *node.Buyer) error {
	p, err := panel.Find(ctx, n.Purchases, b.ID)
	if err != nil {
		return err
	}
	if err := n.Panels.Cancel(ctx, p.ID); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork: nobody is paid; asked", display.Count(int64(len(p.Members)), "provider"), "to stop")
	return nil
}
