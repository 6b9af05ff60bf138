package relay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
)

// TestOutboxIsBounded: whoever gives up leaves a message behind, and a relay that
// takes one now and then never runs out of time.
func TestOutboxIsBounded(t *testing.T) {
	for name, ask := range map[string]func(*session, context.Context){
		"questions": func(s *session, _ context.Context) { s.forget(s.request(&feed{filters: nostrIDs(2000)})) },
		"events":    func(s *session, ctx context.Context) { _, _ = s.exchange(ctx, "id", make([]byte, 64<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			s := newSession(newLink(&Pool{cfg: Config{}.withDefaults()}, "ws://relay.test"), nil, ctx.Done(), end)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			for n := 0; ctx.Err() == nil; n++ {
				if ask(s, over); n > maxOutbox/1000 {
					t.Fatal("the connection goes on")
				}
			}
			held := 0
			for _, doc := range s.take() {
				held += len(doc)
			}
			if !errors.Is(context.Cause(ctx), errNotReading) || held > maxOutbox || held < maxOutbox/2 {
				t.Errorf("%v with %d bytes", context.Cause(ctx), held)
			}
			if len(s.feeds) > 0 || s.queued != 0 {
				t.Errorf("%d feeds, %d bytes are left", len(s.feeds), s.queued)
			}
		})
	}
}

// TestRelayThatDoesNotRead: its connection ends, and another is made.
func TestRelayThatDoesNotRead(t *testing.T) {
	done := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := websocket.Accept(w, r, nil); err == nil {
			defer ws.CloseNow()
			<-done
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(done) })
	url := "ws" + strings.TrimPrefix(srv.URL, "http")
	// The time for one message is not what ends it.
	p := startPool(t, Config{URLs: []string{url}, WriteTimeout: time.Hour, PingInterval: time.Hour})
	first, err := p.links[0].await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for first.link.status().Connects == 1 {
		first.forget(first.request(&feed{filters: nostrIDs(2000)}))
	}
	<-first.done
	if again, err := p.links[0].await(t.Context()); err == nil && again == first {
		t.Error("the connection goes on")
	}
}

// nostrIDs asks for n events, in about 70 bytes each.
func nostrIDs(n int) nostr.Filters {
	return nostr.Filters{{IDs: slices.Repeat([]string{strings.Repeat("0", 64)}, n)}}
}
