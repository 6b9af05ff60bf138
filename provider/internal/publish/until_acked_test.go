package publish

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/nbd-wtf/go-nostr"
)

// crowded is a market of two relays: one is away, the other takes an event when it
// is offered once more than it refuses, each time after a while.
type crowded struct {
	Market
	refusal string
	refuses int
	offers  map[string]int // by event id
}

func (c *crowded) Publish(_ context.Context, ev nostr.Event) []job.Ack {
	time.Sleep(time.Second)
	c.offers[ev.ID]++
	away := job.Ack{EventID: ev.ID, Relay: "wss://away.example", Message: "relay is not connected"}
	if c.offers[ev.ID] <= c.refuses {
		return []job.Ack{away, {EventID: ev.ID, Relay: "wss://relay.example", Message: c.refusal}}
	}
	return []job.Ack{away, {EventID: ev.ID, Relay: "wss://relay.example", OK: true}}
}

// TestResultIsInsistedOn: a result that relays want later is offered again at once,
// a few times, and nothing else is.
func TestResultIsInsistedOn(t *testing.T) {
	for name, c := range map[string]struct {
		kind, refuses int
		refusal       string
		offers        int
		taken         bool
	}{
		"a result":                     {6050, 2, "rate-limited: slow down", 3, true},
		"a result, for long":           {6050, 9, "rate-limited: slow down", 3, false},
		"a result that is not wanted":  {6050, 2, "blocked: no results", 1, false},
		"feedback, of which none wait": {7000, 2, "rate-limited: slow down", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, market := &ackStore{}, &crowded{refusal: c.refusal, refuses: c.refuses, offers: map[string]int{}}
				var told []job.Ack
				o := New(Config{
					Store: store, Market: market, Log: slog.New(slog.DiscardHandler), OnAck: func(_ string, acks []job.Ack) { told = acks },
					OnStoreError: func(err error) { t.Error(err) }, OnPublished: func(job.PublicationEvent) {},
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); _ = o.Serve(ctx) }()
				o.Send(job.OutEvent{EventID: "e", RequestID: "job", Event: []byte(nostr.Event{ID: "e", Kind: c.kind, Sig: "signed"}.String())})
				time.Sleep(retryEvery - time.Millisecond)
				stop()
				<-ended
				if n := market.offers["e"]; n != c.offers {
					t.Errorf("offered %d times, want %d", n, c.offers)
				}
				if taken := len(told) == 2 && told[1].OK; taken != c.taken || len(store.commits) != 1 {
					t.Errorf("told %v, commits %v", told, store.commits)
				}
			})
		})
	}
}
