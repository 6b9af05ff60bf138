package buyer_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// replayed is a store whose purchase was answered in a former life: the relay has
// the answers, whether it takes the request again or not.
type replayed struct {
	buyer.Store
	answer func(request nostr.Event)
}

func (s replayed) AddPurchase(ctx context.Context, p buyer.Purchase) error {
	var ev nostr.Event
	if err := json.Unmarshal(p.Request, &ev); err != nil {
		return err
	}
	s.answer(ev)
	return s.Store.AddPurchase(ctx, p)
}

// resumed follows a purchase whose request and offer have expired, with a wallet
// that says what looks does, until it is paid or ends.
func resumed(t *testing.T, looks func() (payments.Payment, error)) (*cheat, buyer.Purchase, error) {
	t.Helper()
	var cheated *cheat
	never := func(*cheat, nostr.Event) []nostr.Event {
		t.Error("a request that has expired was sent again")
		return nil
	}
	pin := func(c *cheat) string {
		cheated, c.looks = c, looks
		return ""
	}
	tell := func(p buyer.Progress) {
		if p.What == "paid" {
			cheated.stop()
		}
	}
	return buy(t, never, pin, tell, func(cfg *buyer.Config) {
		cfg.Store = replayed{cfg.Store, func(req nostr.Event) {
			cheated.out <- cheated.offer(req, func(d *deal) {
				d.quote.ExpiresAt = receipts.Timestamp(time.Now().Add(-time.Minute))
				d.invoice.CreatedAt, d.invoice.Expiry = time.Now().Add(-time.Hour), time.Minute
			})
		}}
	}, buyer.Order{TTL: -time.Minute})
}

// TestLapsedOfferThatWasPaid: a buyer whose database was restored from a backup
// finds that it has paid for an offer that has expired since. The payment is its
// own: it is neither made again nor forgotten, and the budget is charged.
func TestLapsedOfferThatWasPaid(t *testing.T) {
	c, p, err := resumed(t, func() (payments.Payment, error) {
		return payments.Payment{Hash: secret.Hash(), State: payments.PaymentSucceeded, AmountMsats: price, Preimage: secret}, nil
	})
	if !errors.Is(err, context.Canceled) || p.State != buyer.StatePaid || p.Attempt == nil || len(c.sent) != 0 {
		t.Fatalf("purchase %s (%s), %v; sent %d", p.State, p.Reason, err, len(c.sent))
	}
	if b, err := c.store.BudgetOf(t.Context(), p.Attempt.ReservedAt); err != nil || b.SpentMsats != price {
		t.Errorf("budget %+v, %v", b, err)
	}
}

// TestLapsedOfferThatWasNotPaid: it is not paid, and where the wallet cannot tell
// the purchase stays open.
func TestLapsedOfferThatWasNotPaid(t *testing.T) {
	for name, tt := range map[string]struct {
		pay   payments.Payment
		err   error
		state buyer.State
	}{
		"never begun":             {err: payments.ErrNotFound, state: buyer.StateFailed},
		"failed":                  {pay: payments.Payment{Hash: secret.Hash(), State: payments.PaymentFailed}, state: buyer.StateFailed},
		"the wallet is not there": {err: payments.ErrWalletUnavailable, state: buyer.StateRequested},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := resumed(t, func() (payments.Payment, error) { return tt.pay, tt.err })
			if err == nil || p.State != tt.state || len(c.sent) != 0 || p.Attempt != nil {
				t.Errorf("purchase %s (%s), %v; sent %d", p.State, p.Reason, err, len(c.sent))
			}
		})
	}
}
