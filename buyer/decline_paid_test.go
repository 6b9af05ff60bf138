package buyer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// elsewherePaid is a store in which another follower pays for a purchase at the
// moment at which this one ends it.
type elsewherePaid struct {
	buyer.Store
	t *testing.T
}

func (s elsewherePaid) CloseUnpaid(ctx context.Context, id string, to buyer.State, reason string) error {
	preimage := payments.Preimage{7}
	a := buyer.Attempt{
		Purpose: string(receipts.PurposeResult), PaymentHash: preimage.Hash(), AmountMsats: price, ReservedAt: time.Now().UTC(),
	}
	if err := s.Reserve(ctx, id, buyer.Charge{Attempt: &a, Quote: []byte("{}"), BOLT11: "lnbc1elsewhere", Acceptance: []byte("{}")}, buyer.Limits{}); err != nil {
		s.t.Errorf("reserve: %v", err)
	}
	paid := payments.Payment{Hash: a.PaymentHash, Preimage: preimage, State: payments.PaymentSucceeded, AmountMsats: price}
	if err := s.Paid(ctx, id, paid); err != nil {
		s.t.Errorf("paid: %v", err)
	}
	return s.Store.CloseUnpaid(ctx, id, to, reason)
}

// TestWhatIsPaidIsNotDeclined: of two that follow a purchase one may refuse what
// the other pays. It ends nothing and takes nothing back.
func TestWhatIsPaidIsNotDeclined(t *testing.T) {
	told := make(chan nostr.Event, 8)
	_, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		return []nostr.Event{c.offer(req, func(d *deal) { d.amount = "19999" })}
	}, nil, nil, func(cfg *buyer.Config) {
		cfg.Store, cfg.Market = elsewherePaid{cfg.Store, t}, unheard{cfg.Market.(*cheat), told}
	})
	if !errors.Is(err, buyer.ErrConflict) || p.State != buyer.StatePaid {
		t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
	if len(told) != 0 {
		t.Error("the provider was told that nothing is paid")
	}
}
