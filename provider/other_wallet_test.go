package provider_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
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
			first := c.open(t, func(cfg *buyer.Config) {
				if at == "before it is sent" {
					cfg.Wallet = &gated{Client: c.wallet, beforeSend: end}
				}
			})
			p := w.place(t, c, receipts.ModeHold, order(""))
			if at == "while it is held" {
				go func() { <-running; end() }()
			}
			if _, err := first.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("the first life ended with %v", err)
			}
			before, err := c.store.BudgetOf(w.ctx, p.AddedAt)
			check(t, err)

			other := w.party(t, "another-wallet")
			second := c.open(t, func(cfg *buyer.Config) { cfg.Wallet = other.wallet })
			if p, err = second.Follow(w.ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrOtherWallet) || p.State != buyer.StatePaying {
				t.Errorf("resumed with another wallet: %s (%s), %v", p.State, p.Reason, err)
			}
			now, err := c.store.BudgetOf(w.ctx, p.AddedAt)
			check(t, err)
			if now != before || now.ReservedMsats == 0 {
				t.Errorf("budget %+v, it was %+v", now, before)
			}
			if got := w.balance(t, other); got != faucetMsats {
				t.Errorf("the other wallet has %d msats", got)
			}
			close(finish)
			w.sold(t, c, w.follow(t, c, p.RequestID, nil), receipts.ModeHold)
		})
	}
}

// TestRefundFromAnotherWallet: a provider is started with another wallet after it
// has sent a refund and before it knew that. The refund is neither sent twice nor
// credited on top.
func TestRefundFromAnotherWallet(t *testing.T) {
	w := newWorld(t)
	w.failing()
	payer := &dyingPayer{Client: w.seller.wallet, at: "sent", w: w}
	w.serve(t, func(cfg *provider.Config) { cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: feeMsats} })
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.wallet, patience })
	f := w.follow(t, c, w.prepay(t, c, "").RequestID, nil)
	select {
	case <-w.store.lifeOver():
	case <-w.ctx.Done():
		t.Fatal("the provider was not stopped")
	}

	other := &looked{Client: w.party(t, "another-wallet").wallet, twice: make(chan struct{})}
	stop := w.serve(t, func(cfg *provider.Config) {
		cfg.Wallet, cfg.Refunds = other, &provider.Refunds{Wallet: other, MaxFeeMsats: feeMsats}
	})
	select {
	case <-other.twice: // so what followed from the first look is over
	case <-w.ctx.Done():
		t.Fatal("the refund was not looked for")
	}
	stop()
	open, err := w.store.OpenRefunds(w.ctx)
	check(t, err)
	if len(open) != 1 || other.sent != 0 {
		t.Errorf("%d refunds are open, %d were sent by the other wallet", len(open), other.sent)
	}

	w.serve(t, w.refunding)
	p := f.failed(t, provider.CodeAgentFailed)
	if d := w.debt(t, p.RequestID); d.Refund.End.State != payments.PaymentSucceeded || d.CreditMsats != 0 {
		t.Errorf("refund %+v, credit %d", d.Refund.End, d.CreditMsats)
	}
	w.moved(t, c.party, -feeMsats, feeMsats)
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
