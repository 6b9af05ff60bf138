package provider_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
)

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
