package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

var (
	taken   = ack{accepted: true}
	limited = ack{text: "rate-limited: slow down"}
)

// enterAll has n events enter and returns the channel of those that did.
func enterAll(t *testing.T, g *gate, n int) <-chan *pass {
	out := make(chan *pass, n)
	for range n {
		go func() {
			p, err := g.enter(t.Context(), nil)
			if err != nil {
				t.Error(err)
			}
			out <- p
		}()
	}
	synctest.Wait()
	return out
}

// TestGate: however many events are refused at once, that is one pause, then one
// event goes, and with each that is taken one more.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		first := enterAll(t, g, maxPublishing+6+15)
		if len(first) != maxPublishing {
			t.Fatalf("%d events went out", len(first))
		}
		for range maxPublishing {
			g.leave(<-first, limited)
		}
		for pause := shortPause; pause < 2*longPause; pause *= 2 {
			began := time.Now()
			p := <-first
			if took := time.Since(began); took < min(pause, longPause)/2 || took > min(pause, longPause) {
				t.Errorf("waited %v, want %v", took, pause)
			}
			synctest.Wait()
			if len(first) > 0 {
				t.Fatal("more than one went out")
			}
			g.leave(p, limited)
		}
		for n := 1; n < 5; n++ { // one more at once each time
			out := []*pass{<-first}
			synctest.Wait()
			for len(first) > 0 {
				out = append(out, <-first)
			}
			if len(out) != 1<<(n-1) {
				t.Errorf("%d are out, want %d", len(out), 1<<(n-1))
			}
			for _, p := range out[1:] {
				g.leave(p, taken)
			}
			g.leave(out[0], taken)
		}
	})
}

// TestGateForgetsWhoGaveUp: a caller whose time is over takes no place.
func TestGateForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.leave(<-enterAll(t, g, 1), limited)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := g.enter(ctx, nil); !errors.Is(err, ErrTimeout) || g.refusal() != limited.text {
			t.Errorf("%v, %q", err, g.refusal())
		}
		gone := make(chan struct{})
		close(gone)
		if _, err := g.enter(t.Context(), gone); !errors.Is(err, ErrDisconnected) {
			t.Error(err)
		}
		g.leave(<-enterAll(t, g, 1), taken)
		if g.out != 0 || len(g.waiting) != 0 || g.refusal() != "" || g.window != 2 {
			t.Errorf("%+v", g)
		}
	})
}

// TestPublishToALimitedRelay: one call brings every event to a relay that takes
// few at a time.
func TestPublishToALimitedRelay(t *testing.T) {
	var offered atomic.Int64
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if n := offered.Add(1); n <= 10 || n == 12 { // all of the first, then one of the others
			send(string(nip01.AppendOK(nil, m.Event.ID, false, limited.text)))
			return
		}
		send(string(nip01.AppendOK(nil, m.Event.ID, true, "")))
	})
	p := startPool(t, Config{URLs: []string{url}, PublishTimeout: patience})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if r := p.Publish(t.Context(), note(t, fmt.Sprint(i), 0)); !r[0].OK {
				t.Errorf("event %d: %+v", i, r[0])
			}
		})
	}
	all.Wait()
}

// inMemory is the link to a relay without a connection, for a bubble of synctest.
func inMemory(t *testing.T, answer func(s *session, m nip01.ClientMessage)) *link {
	l := newLink(&Pool{cfg: Config{}.withDefaults()}, "ws://relay.test")
	s := newSession(l, nil, nil, nil)
	l.enter(StateConnected, s, nil)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-s.wake:
			case <-stop:
				return
			}
			for _, doc := range s.take() {
				m, err := nip01.ParseClient(doc, nip01.Limits{})
				if err != nil {
					t.Error(err)
				}
				answer(s, m)
			}
		}
	}()
	return l
}

// TestPublishToAFullRelay: the refusal that lasts is the answer, also for what
// could not be offered.
func TestPublishToAFullRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offered := 0
		l := inMemory(t, func(s *session, m nip01.ClientMessage) {
			offered++
			s.onOK(m.Event.ID, limited)
		})
		for i := range 3 {
			offered = 0 // the first is offered again after the first pause, which is shorter than its time
			ctx, cancel := context.WithTimeout(t.Context(), 251*time.Millisecond)
			ev := note(t, fmt.Sprint(i), 0)
			r := l.publish(ctx, ev.ID, nip01.AppendEventMessage(nil, &ev))
			cancel()
			if r.OK || r.Err != nil || r.Message != limited.text || i == 0 && offered != 2 || i > 0 && offered > 1 {
				t.Errorf("event %d: %+v, offered %d times", i, r, offered)
			}
		}
	})
}

// TestQueryOfAFullRelay: so it is for questions, also where a later one is not
// answered in time.
func TestQueryOfAFullRelay(t *testing.T) {
	for _, silentAfter := range []int{100, 1} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			l := inMemory(t, func(s *session, m nip01.ClientMessage) {
				if m.Label != nip01.LabelReq {
					return
				}
				if asked++; asked <= silentAfter {
					s.onClosed(m.SubID, limited.text)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := (&query{limit: 1, seen: map[string]bool{}}).askWithRetries(ctx, l)
			synctest.Wait()
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "slow down") || asked < 2 {
				t.Errorf("silent after %d: asked %d times: %v", silentAfter, asked, err)
			}
		})
	}
}

func TestQueryOfALimitedRelay(t *testing.T) {
	var asked atomic.Int64
	ev := note(t, "finally", 0)
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		switch {
		case m.Label != nip01.LabelReq:
		case asked.Add(1) == 1:
			send(quoted("CLOSED", m.SubID, limited.text))
		default:
			send(delivery(m.SubID, ev))
			send(quoted("EOSE", m.SubID))
		}
	})
	p := startPool(t, Config{URLs: []string{url}, QueryTimeout: patience})
	if events, err := p.Query(t.Context(), kind1); err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
}
