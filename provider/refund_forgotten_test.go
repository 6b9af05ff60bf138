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
)

// amnesiac is a wallet that has lost its records of payments, as an lnd that was
// restored from its seed. The payee still knows that it was paid.
type amnesiac struct {
	*playnet.Client
	refusal error  // of what it is told to send; nil: it sends
	sending func() // called as it is told to send

	mu     sync.Mutex
	sent   int
	looks  int
	looked chan struct{} // closed at the third look
}

func (a *amnesiac) LookupPayment(context.Context, payments.Hash) (payments.Payment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.looks++; a.looks == 3 {
		close(a.looked)
	}
	return payments.Payment{}, payments.ErrNotFound
}

func (a *amnesiac) SendPayment(context.Context, payments.Pay) error {
	if a.sending != nil {
		a.sending()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	return a.refusal
}

func (a *amnesiac) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

// TestForgottenRefund: the provider dies once it has sent a refund, and its wallet
// loses its records meanwhile. The same invoice is offered once more; its refusal is
// not believed, so the refund is neither failed nor sent again. It stays open until
// the records are there again, or the operator has a word.
func TestForgottenRefund(t *testing.T) {
	for _, word := range []string{"the records come back", "retry", "write off"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Failing()
			payer := &dyingPayer{Client: w.Seller.Wallet, at: "sent", w: w}
			w.Serve(t, func(cfg *provider.Config) {
				cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: markettest.FeeMsats}
			})
			c := w.NewCustomer(t, nil)
			c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
			id := w.Prepay(t, c, "").RequestID
			f := w.Follow(t, c, id, nil)
			select {
			case <-w.Store.LifeOver():
			case <-w.Ctx.Done():
				t.Fatal("the provider was not stopped")
			}

			lost := &amnesiac{Client: w.Seller.Wallet, refusal: payments.ErrNoRoute, looked: make(chan struct{})}
			stop := w.Serve(t, func(cfg *provider.Config) {
				cfg.Refunds = &provider.Refunds{Wallet: lost, MaxFeeMsats: markettest.FeeMsats}
			})
			select {
			case <-lost.looked: // before it was sent, after it was refused, and again
			case <-w.Ctx.Done():
				t.Fatal("the refund was not looked for")
			}
			now := func() *provider.Debt {
				d, err := w.Store.DebtOf(w.Ctx, id)
				markettest.Check(t, err)
				return d
			}
			if d := now(); d.Refund.End != nil || d.Refund.Sent != 2 || lost.times() != 1 || d.CreditMsats != 0 {
				t.Fatalf("attempt %+v, %d sent by the wallet that forgot, credit %d", d.Refund, lost.times(), d.CreditMsats)
			}

			switch word {
			case "retry":
				if _, err := w.Selling.RetryRefund(w.Ctx, id, ""); err != nil && !errors.Is(err, payments.ErrNoRoute) {
					t.Fatal(err)
				}
				if d := now(); len(d.Attempts) != 2 || d.Attempts[0].End == nil || d.Attempts[0].End.State != payments.PaymentFailed {
					t.Errorf("attempts %+v", d.Attempts)
				}
				refundEnds(t, w, id, 2) // it is sent in this very life
				if n := lost.times(); n != 2 {
					t.Errorf("the wallet was told %d times", n)
				}
			case "write off":
				msats, err := w.Selling.WriteOff(w.Ctx, id, "its buyer has it")
				markettest.Check(t, err)
				if d := now(); msats != markettest.RateMsats || d.WriteOff == nil || d.CreditMsats != 0 {
					t.Errorf("%d msats, debt %+v", msats, d)
				}
			default:
				stop()
				w.Serve(t, w.Refunding)
				f.Failed(t, provider.CodeAgentFailed)
				if d := w.Debt(t, id); d.Refund.End.State != payments.PaymentSucceeded || d.CreditMsats != 0 {
					t.Errorf("refund %+v, credit %d", d.Refund.End, d.CreditMsats)
				}
				w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
			}
		})
	}
}

// refundEnds waits until an attempt to pay a debt has ended.
func refundEnds(t *testing.T, w *markettest.World, id string, attempt int) {
	t.Helper()
	for {
		change := w.Store.Changed()
		d, err := w.Store.DebtOf(w.Ctx, id)
		markettest.Check(t, err)
		if len(d.Attempts) >= attempt && d.Attempts[attempt-1].End != nil {
			return
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("attempt %d does not end: %+v", attempt, d.Attempts)
		}
	}
}

// TestRefundBeingSentIsNotForgotten: a wallet that is just being told of a refund does
// not know of it yet. Another in its place could be paid as well.
func TestRefundBeingSentIsNotForgotten(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	payer := &dyingPayer{Client: w.Seller.Wallet, at: "sent", w: w}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: markettest.FeeMsats}
	})
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
	id := w.Prepay(t, c, "").RequestID
	w.Follow(t, c, id, nil)
	select {
	case <-w.Store.LifeOver():
	case <-w.Ctx.Done():
		t.Fatal("the provider was not stopped")
	}

	told, release := make(chan struct{}), make(chan struct{})
	lost := &amnesiac{Client: w.Seller.Wallet, refusal: payments.ErrNoRoute, looked: make(chan struct{}), sending: sync.OnceFunc(func() {
		close(told)
		<-release
	})}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Refunds = &provider.Refunds{Wallet: lost, MaxFeeMsats: markettest.FeeMsats}
	})
	select {
	case <-told:
	case <-w.Ctx.Done():
		t.Fatal("the refund was not sent")
	}
	if _, err := w.Selling.RetryRefund(w.Ctx, id, ""); !errors.Is(err, provider.ErrRefundOpen) {
		t.Errorf("tried again: %v", err)
	}
	if _, err := w.Selling.WriteOff(w.Ctx, id, "by hand"); !errors.Is(err, provider.ErrRefundOpen) {
		t.Errorf("written off: %v", err)
	}

	close(release)
	select {
	case <-lost.looked:
	case <-w.Ctx.Done():
		t.Fatal("the refund was not looked for again")
	}
	if _, err := w.Selling.WriteOff(w.Ctx, id, "by hand"); err != nil {
		t.Errorf("a refund that was sent, and that the wallet does not know: %v", err)
	}
}

// TestRefundOnItsWayIsNotForgotten: what the wallet knows is not ended by a word.
func TestRefundOnItsWayIsNotForgotten(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	tracked, release := make(chan struct{}), make(chan struct{})
	payer := &slowPayer{Client: w.Seller.Wallet, tracked: tracked, release: release}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: markettest.FeeMsats}
	})
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
	id := w.Prepay(t, c, "").RequestID
	f := w.Follow(t, c, id, nil)
	select {
	case <-tracked:
	case <-w.Ctx.Done():
		t.Fatal("the refund was not sent")
	}
	if _, err := w.Selling.RetryRefund(w.Ctx, id, ""); !errors.Is(err, provider.ErrRefundOpen) {
		t.Errorf("tried again: %v", err)
	}
	if _, err := w.Selling.WriteOff(w.Ctx, id, "by hand"); !errors.Is(err, provider.ErrRefundOpen) {
		t.Errorf("written off: %v", err)
	}
	close(release)
	f.Failed(t, provider.CodeAgentFailed)
}

// slowPayer does not say how a payment ended until it is released.
type slowPayer struct {
	*playnet.Client
	tracked, release chan struct{}
	once             sync.Once
}

func (s *slowPayer) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	s.once.Do(func() { close(s.tracked) })
	select {
	case <-s.release:
	case <-ctx.Done():
		return payments.Payment{}, ctx.Err()
	}
	return s.Client.TrackPayment(ctx, h)
}
