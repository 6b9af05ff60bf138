package buyer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestGivenUpWithItsWallet: a wallet is lost while it pays, and its owner says so. The
// purchase is open no more, all that it may have cost stays reserved, and no other wallet pays
// for it. Once the first is found all the same, what became of the payment is asked
// for and counted.
func TestGivenUpWithItsWallet(t *testing.T) {
	for _, delivered := range []bool{false, true} {
		name := "given back"
		if delivered {
			name = "delivered"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			markettest.WithinADay(t)
			w := markettest.New(t)
			running, finish := make(chan struct{}), make(chan struct{})
			w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				close(running)
				select {
				case <-finish:
					return w.Runner.Good(nil)
				case <-ctx.Done():
					return provider.Outcome{}, ctx.Err()
				}
			}
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			ctx, end := context.WithCancel(w.Ctx)
			defer end()
			first := c.Open(t, nil)
			p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
			go func() { <-running; end() }()
			if _, err := first.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("the first life ended with %v", err)
			}
			if delivered {
				close(finish)
				w.Await(t, p.RequestID, provider.StateSucceeded)
			}
			before, err := c.Store.BudgetOf(w.Ctx, p.AddedAt)
			markettest.Check(t, err)

			if err := first.GiveUp(w.Ctx, p.RequestID); !errors.Is(err, buyer.ErrWalletHere) {
				t.Errorf("given up with its wallet at hand: %v", err)
			}
			other := w.NewParty(t, "another-wallet")
			second := c.Open(t, func(cfg *buyer.Config) { cfg.Wallet = other.Wallet })
			markettest.Check(t, second.GiveUp(w.Ctx, p.RequestID))
			p, err = c.Store.Purchase(w.Ctx, p.RequestID)
			markettest.Check(t, err)
			if !p.GivenUp() || p.GivenUpMsats() != before.ReservedMsats || before.ReservedMsats == 0 {
				t.Errorf("purchase %s (%s), %d msats of it given up, %d were reserved", p.State, p.Reason, p.GivenUpMsats(), before.ReservedMsats)
			}
			if _, err := second.Follow(w.Ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrOtherWallet) {
				t.Errorf("followed with the other wallet: %v", err)
			}
			now, err := c.Store.BudgetOf(w.Ctx, p.AddedAt)
			markettest.Check(t, err)
			open, err := c.Store.OpenPurchases(w.Ctx)
			markettest.Check(t, err)
			if got := w.Balance(t, other); now != before || len(open) != 0 || got != markettest.FaucetMsats {
				t.Errorf("budget %+v, it was %+v; open %v; the other wallet has %d msats", now, before, open, got)
			}

			f := w.Follow(t, c, p.RequestID, nil)
			if delivered {
				w.Sold(t, c, f, receipts.ModeHold)
				return
			}
			p = f.Failed(t, provider.CodeCanceled)
			now, err = c.Store.BudgetOf(w.Ctx, p.AddedAt)
			markettest.Check(t, err)
			if now.ReservedMsats != 0 || now.SpentMsats != 0 || p.GivenUp() {
				t.Errorf("budget %+v of what came back, given up %v", now, p.GivenUp())
			}
		})
	}
}
