package buyer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
)

// unheard is a market whose relays never answer a cancellation.
type unheard struct {
	*cheat
	told chan nostr.Event
}

func (m unheard) Send(ctx context.Context, ev nostr.Event) error {
	if ev.Kind != 5 {
		return m.cheat.Send(ctx, ev)
	}
	m.told <- ev
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > 10*time.Second {
		m.t.Error("the end of a purchase waits for its relays for as long as they like")
		return errors.New("no answer")
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestUnpaidQuoteIsDeclined: a purchase that asks for a payment and gets none has
// ended, and its provider is told, once. Nothing hangs on whether it hears.
func TestUnpaidQuoteIsDeclined(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*deal)
		want   string
	}{
		"refused":            {func(d *deal) { d.amount = "19999" }, "amount tag"},
		"the payment failed": {func(*deal) {}, "payment_failed: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := make(chan nostr.Event, 8)
			c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.offer(req, tt.change)}
			}, nil, nil, func(cfg *buyer.Config) { cfg.Market = unheard{cfg.Market.(*cheat), told} })
			if !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed || !strings.Contains(p.Reason, tt.want) {
				t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			if len(told) != 1 {
				t.Fatalf("the provider was told %d times", len(told))
			}
			if ev := <-told; !ev.Tags.ContainsAny("e", []string{p.RequestID}) || !ev.Tags.ContainsAny("p", []string{c.key.PublicKey()}) {
				t.Errorf("it was told %v", ev.Tags)
			}
		})
	}
}
