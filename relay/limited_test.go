package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// fullRelay says "rate-limited:" to all that it is sent, and counts it.
func fullRelay(t testing.TB, offered *atomic.Int64) string {
	return fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		switch m.Label {
		case nip01.LabelEvent:
			offered.Add(1)
			send(string(nip01.AppendOK(nil, m.Event.ID, false, limited.text)))
		case nip01.LabelReq:
			offered.Add(1)
			send(quoted("CLOSED", m.SubID, limited.text))
		}
	})
}

// shut has the gate of a relay closed for the rest of a test.
func shut(g *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused, g.text, g.window = true, limited.text, 1
}

// TestNotOfferedIsNotRefused: what another relay took before this one wanted it was
// not refused by this one. A store would note that, and put the event off.
func TestNotOfferedIsNotRefused(t *testing.T) {
	live := startRelay(t)
	var offered atomic.Int64
	p := startPool(t, Config{URLs: []string{fullRelay(t, &offered), live.url()}, PublishTimeout: patience})
	shut(p.links[0].gate)
	for i := range 20 {
		r := p.PublishQuorum(t.Context(), note(t, fmt.Sprint(i), 0), 1)
		if !errors.Is(r[0].Err, ErrNotAwaited) || !r[1].OK {
			t.Fatalf("event %d: %+v", i, r)
		}
	}
	if n := offered.Load(); n != 0 {
		t.Errorf("%d events were offered", n)
	}
}

// TestLateRefusalIsHeard: a relay that is slower than the others is a brake too,
// and its word of an event that it takes opens it again.
func TestLateRefusalIsHeard(t *testing.T) {
	live := startRelay(t)
	answers := make(chan func(text string, ok bool), 1)
	slow := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label == nip01.LabelEvent {
			select {
			case answers <- func(text string, ok bool) { send(string(nip01.AppendOK(nil, m.Event.ID, ok, text))) }:
			default:
			}
		}
	})
	p := startPool(t, Config{URLs: []string{slow, live.url()}, PublishTimeout: patience})
	g := p.links[0].gate
	offer := func(content string) func(string, bool) {
		for { // until the slow one is connected, and was offered it before the other's answer
			if r := p.PublishQuorum(t.Context(), note(t, content, 0), 1); !r[1].OK {
				t.Fatalf("%+v", r)
			}
			select {
			case answer := <-answers:
				return answer
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	offer("a")(limited.text, false)
	waitFor(t, "the brake", func() bool { return g.refusal() == limited.text })
	offer("b")("", true)
	waitFor(t, "its end", func() bool { return g.refusal() == "" })
}

// TestQueryBesideAFullRelay: what one relay has told waits for one that never wants
// to be asked no longer than for a few questions.
func TestQueryBesideAFullRelay(t *testing.T) {
	live := startRelay(t)
	var asked atomic.Int64
	p := startPool(t, Config{URLs: []string{fullRelay(t, &asked), live.url()}, QueryTimeout: patience})
	if r := p.PublishQuorum(t.Context(), note(t, "x", 0), 1); !r[1].OK {
		t.Fatalf("%+v", r)
	}
	asked.Store(0)
	events, err := p.Query(t.Context(), kind1)
	if err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
	if n := asked.Load(); n > 2*busyTries { // as often as until the other's answer, and then no more
		t.Errorf("asked %d times", n)
	}
}

// TestPagesOfAFullRelay: a relay that answers the first REQ each time, and then says
// that a page is too much, is asked ever more seldom.
func TestPagesOfAFullRelay(t *testing.T) {
	ev := note(t, "newest", 10)
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		switch {
		case m.Label != nip01.LabelReq:
		case m.Filters[0].Until != nil:
			send(quoted("CLOSED", m.SubID, limited.text))
		default:
			send(delivery(m.SubID, ev))
			send(quoted("EOSE", m.SubID))
		}
	})
	p := startPool(t, Config{URLs: []string{url}})
	since := nostr.Now() - 100
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, Since: &since})
	waitFor(t, "longer pauses", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		tail := s.tails[p.links[0]] // nil until it is connected
		return tail != nil && tail.refusals > 4
	})
}

// TestSlowingRelayIsAlive: a relay that does not come to read our pings is kept
// while it says something.
func TestSlowingRelayIsAlive(t *testing.T) {
	said, over := make(chan time.Time), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		for tick := time.Tick(10 * time.Millisecond); ; { // five hundred times as often as it must
			select {
			case now := <-tick:
				if ws.Write(context.Background(), websocket.MessageText, []byte(quoted("NOTICE", "wait"))) != nil {
					return
				}
				select {
				case said <- now:
				default:
				}
			case <-over:
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(over) })
	p := startPool(t, Config{
		URLs: []string{"ws" + strings.TrimPrefix(srv.URL, "http")}, PingInterval: 10 * time.Millisecond, WriteTimeout: 5 * time.Second,
	})
	began := <-said
	for last := began; last.Sub(began) < 11*time.Second; { // two pings are overdue then
		last = <-said
	}
	if n := p.Status()[0].Connects; n != 1 {
		t.Errorf("%d connections", n)
	}
}
