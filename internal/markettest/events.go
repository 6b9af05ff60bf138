package markettest

import (
	"context"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/exchange"
)

// See waits until an event is on the relay that matches.
func (w *World) See(ctx context.Context, m *exchange.Market, f nostr.Filter, matches func(nostr.Event) bool) (found nostr.Event, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	err = m.Listen(ctx, nostr.Filters{f}, func() {}, func(ev nostr.Event) {
		if found.ID == "" && matches(ev) {
			found = ev
			stop()
		}
	})
	if found.ID != "" {
		return found, nil
	}
	return found, err
}

// Find waits until the relay has an event that fits.
func (w *World) Find(t *testing.T, m *exchange.Market, f nostr.Filter) (found nostr.Event) {
	t.Helper()
	w.Hear(t, m, f, func(ev nostr.Event) bool { found = ev; return true })
	return found
}

// Hear hands on what is stored and what comes, until done.
func (w *World) Hear(t *testing.T, m *exchange.Market, f nostr.Filter, done func(nostr.Event) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(w.Ctx)
	defer stop()

	was := false
	err := m.Listen(ctx, nostr.Filters{f}, func() {}, func(ev nostr.Event) {
		if !was && done(ev) {
			was = true
			stop()
		}
	})
	if !was {
		t.Fatalf("waiting for %v: %v", f, err)
	}
}

// Heard waits until the relay has an event, and for the second after its own: then
// nobody who asks for what is new from now on hears of it.
func (w *World) Heard(t *testing.T, c *Customer, filter nostr.Filter) {
	t.Helper()
	ev := w.Find(t, c.Market, filter)
	select {
	case <-time.After(time.Until(ev.CreatedAt.Time().Add(1100 * time.Millisecond))):
	case <-w.Ctx.Done():
		t.Fatal("no time left")
	}
}
