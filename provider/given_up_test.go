package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
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
			withinADay(t)
			w := newWorld(t)
			running, finish := make(chan struct{}), make(chan struct{})
			w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				close(running)
				select {
				case <-finish:
					return w.runner.good(nil)
				case <-ctx.Done():
					return provider.Outcome{}, ctx.Err()
				}
			}
			w.serve(t, nil)
			c := w.customer(t, nil)
			ctx, end := context.WithCancel(w.ctx)
			defer end()
			first := c.open(t, nil)
			p := w.place(t, c, receipts.ModeHold, order(""))
			go func() { <-running; end() }()
			if _, err := first.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("the first life ended with %v", err)
			}
			if delivered {
				close(finish)
				w.await(t, p.RequestID, provider.StateSucceeded)
			}
			before, err := c.store.BudgetOf(w.ctx, p.AddedAt)
			check(t, err)

			if err := first.GiveUp(w.ctx, p.RequestID); !errors.Is(err, buyer.ErrWalletHere) {
				t.Errorf("given up with its wallet at hand: %v", err)
			}
			other := w.party(t, "another-wallet")
			second := c.open(t, func(cfg *buyer.Config) { cfg.Wallet = other.wallet })
			check(t, second.GiveUp(w.ctx, p.RequestID))
			p, err = c.store.Purchase(w.ctx, p.RequestID)
			check(t, err)
			if !p.GivenUp() || p.GivenUpMsats() != before.ReservedMsats || before.ReservedMsats == 0 {
				t.Errorf("purchase %s (%s), %d msats of it given up, %d were reserved", p.State, p.Reason, p.GivenUpMsats(), before.ReservedMsats)
			}
			if _, err := second.Follow(w.ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrOtherWallet) {
				t.Errorf("followed with the other wallet: %v", err)
			}
			now, err := c.store.BudgetOf(w.ctx, p.AddedAt)
			check(t, err)
			open, err := c.store.OpenPurchases(w.ctx)
			check(t, err)
			if got := w.balance(t, other); now != before || len(open) != 0 || got != faucetMsats {
				t.Errorf("budget %+v, it was %+v; open %v; the other wallet has %d msats", now, before, open, got)
			}

			f := w.follow(t, c, p.RequestID, nil)
			if delivered {
				w.sold(t, c, f, receipts.ModeHold)
				return
			}
			p = f.failed(t, provider.CodeCanceled)
			now, err = c.store.BudgetOf(w.ctx, p.AddedAt)
			check(t, err)
			if now.ReservedMsats != 0 || now.SpentMsats != 0 || p.GivenUp() {
				t.Errorf("budget %+v of what came back, given up %v", now, p.GivenUp())
			}
		})
	}
}
