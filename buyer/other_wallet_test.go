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

// TestBuyerWithAnotherWallet: a purchase is resumed with another wallet than it was
// begun with. That one pays nothing in its place, and what it does not know of is
// not called failed: the budget stays reserved until the first wallet is back.
func TestBuyerWithAnotherWallet(t *testing.T) {
	for _, at := range []string{"before it is sent", "while it is held"} {
		t.Run(at, func(t *testing.T) {
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
			first := c.Open(t, func(cfg *buyer.Config) {
				if at == "before it is sent" {
					cfg.Wallet = &markettest.GatedWallet{Client: c.Wallet, BeforeSend: end}
				}
			})
			p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
			if at == "while it is held" {
				go func() { <-running; end() }()
			}
			if _, err := first.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("the first life ended with %v", err)
			}
			before, err := c.Store.BudgetOf(w.Ctx, p.AddedAt)
			markettest.Check(t, err)

			other := w.NewParty(t, "another-wallet")
			second := c.Open(t, func(cfg *buyer.Config) { cfg.Wallet = other.Wallet })
			if p, err = second.Follow(w.Ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrOtherWallet) || p.State != buyer.StatePaying {
				t.Errorf("resumed with another wallet: %s (%s), %v", p.State, p.Reason, err)
			}
			now, err := c.Store.BudgetOf(w.Ctx, p.AddedAt)
			markettest.Check(t, err)
			if now != before || now.ReservedMsats == 0 {
				t.Errorf("budget %+v, it was %+v", now, before)
			}
			if got := w.Balance(t, other); got != markettest.FaucetMsats {
				t.Errorf("the other wallet has %d msats", got)
			}
			close(finish)
			w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), receipts.ModeHold)
		})
	}
}
