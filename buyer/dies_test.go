package buyer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// lastBreath is a provider's wallet that ends its provider as soon as the money
// is claimed.
type lastBreath struct {
	provider.Wallet
	die func()
}

func (w lastBreath) SettleInvoice(ctx context.Context, p payments.Preimage) error {
	err := w.Wallet.SettleInvoice(ctx, p)
	w.die()
	return err
}

// TestDiesAfterSettling: a provider that takes the money and is never heard of
// again has delivered: what it sealed before, the payment opens.
func TestDiesAfterSettling(t *testing.T) {
	w := markettest.New(t)
	var stop func()
	var once sync.Once
	ready := make(chan struct{})
	stop = w.Serve(t, func(cfg *provider.Config) {
		cfg.Wallet = lastBreath{cfg.Wallet, func() {
			once.Do(func() {
				<-ready
				go stop()
			})
		}}
	})
	close(ready)
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		cfg.ReceiptTimeout, cfg.AnswerTimeout = 2*time.Second, 5*time.Second
	})
	p, err := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil).Wait()
	if err != nil && !errors.Is(err, buyer.ErrIncomplete) {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	if p.Output == nil || p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		t.Errorf("paid %+v, and the output is %q", p.Payment, p.Output)
	}
}
