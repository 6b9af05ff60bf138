package provider_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
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

// TestRefundFromAnotherWallet: a provider is started with another wallet after it
// has sent a refund and before it knew that. The refund is neither sent twice nor
// credited on top.
func TestRefundFromAnotherWallet(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	payer := &dyingPayer{Client: w.Seller.Wallet, at: "sent", w: w}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: markettest.FeeMsats}
	})
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
	f := w.Follow(t, c, w.Prepay(t, c, "").RequestID, nil)
	select {
	case <-w.Store.LifeOver():
	case <-w.Ctx.Done():
		t.Fatal("the provider was not stopped")
	}

	other := &looked{Client: w.NewParty(t, "another-wallet").Wallet, twice: make(chan struct{})}
	stop := w.Serve(t, func(cfg *provider.Config) {
		cfg.Wallet, cfg.Refunds = other, &provider.Refunds{Wallet: other, MaxFeeMsats: markettest.FeeMsats}
	})
	select {
	case <-other.twice: // so what followed from the first look is over
	case <-w.Ctx.Done():
		t.Fatal("the refund was not looked for")
	}
	stop()
	open, err := w.Store.OpenRefunds(w.Ctx)
	markettest.Check(t, err)
	if len(open) != 1 || other.sent != 0 {
		t.Errorf("%d refunds are open, %d were sent by the other wallet", len(open), other.sent)
	}

	w.Serve(t, w.Refunding)
	p := f.Failed(t, provider.CodeAgentFailed)
	if d := w.Debt(t, p.RequestID); d.Refund.End.State != payments.PaymentSucceeded || d.CreditMsats != 0 {
		t.Errorf("refund %+v, credit %d", d.Refund.End, d.CreditMsats)
	}
	w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
}

// looked counts what a wallet is asked about payments.
type looked struct {
	*playnet.Client
	twice chan struct{} // closed at the second look

	mu          sync.Mutex
	looks, sent int
}

func (l *looked) LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	l.mu.Lock()
	if l.looks++; l.looks == 2 {
		close(l.twice)
	}
	l.mu.Unlock()
	return l.Client.LookupPayment(ctx, hash)
}

func (l *looked) SendPayment(ctx context.Context, p payments.Pay) error {
	l.mu.Lock()
	l.sent++
	l.mu.Unlock()
	return l.Client.SendPayment(ctx, p)
}
