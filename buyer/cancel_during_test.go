package buyer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
)

// canceling is a store in which somebody cancels a purchase while it is being
// accepted, as the buyer's other commands do.
type canceling struct{ buyer.Store }

func (s canceling) Reserve(ctx context.Context, id string, c buyer.Charge, l buyer.Limits) error {
	if err := s.Close(ctx, id, buyer.StateCanceled, "canceled before payment"); err != nil {
		return err
	}
	return s.Store.Reserve(ctx, id, c, l)
}

// TestCanceledDuringAStep: whoever follows is told that the purchase was
// canceled, and nothing is paid.
func TestCanceledDuringAStep(t *testing.T) {
	offer := func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}
	c, p, err := playWith(t, offer, nil, nil, func(cfg *buyer.Config) { cfg.Store = canceling{cfg.Store} })
	if !errors.Is(err, buyer.ErrFailed) || errors.Is(err, buyer.ErrConflict) || p.State != buyer.StateCanceled || len(c.sent) != 0 {
		t.Errorf("purchase %s (%s), %v, paid %d times", p.State, p.Reason, err, len(c.sent))
	}
}
