package relay

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxPublishing bounds the events that wait for the OK of one relay.
	maxPublishing = 256
	// The first "rate-limited:" stops publishing for about shortPause; each further
	// one doubles the pause, up to longPause.
	shortPause = 250 * time.Millisecond
	longPause  = 8 * time.Second
)

// isRateLimited reports whether a relay refused a message only because there were
// too many.
func isRateLimited(text string) bool { return strings.HasPrefix(text, "rate-limited:") }

// gate limits the events in flight to one relay. After a "rate-limited:" refusal it
// stops for a while and starts again with one event at a time; every accepted event
// then widens the window by one.
type gate struct {
	mu      sync.Mutex
	window  int           // how many events may be in flight
	out     int           // how many are
	pause   time.Duration // the last one; 0 after an event was accepted
	paused  bool
	slowed  int     // number of pauses so far
	text    string  // the relay's last refusal; "" after an event was accepted
	waiting []*pass // in the order of arrival
}

// pass lets one event through the gate; granted is closed when it may be sent.
type pass struct {
	granted chan struct{}
	slowed  int // the gate's count when it was granted
}

func newGate() *gate { return &gate{window: maxPublishing} }

// enter waits until an event may be sent; leave ends the pass. The errors are
// ErrDisconnected and ErrTimeout.
func (g *gate) enter(ctx context.Context, done <-chan struct{}) (*pass, error) {
	p := &pass{granted: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, p)
	g.grant()
	g.mu.Unlock()

	var err error
	select {
	case <-p.granted:
		return p, nil
	case <-done:
		err = ErrDisconnected
	case <-ctx.Done():
		err = ErrTimeout
	}

	g.mu.Lock()
	defer g.mu.Unlock()

	if i := slices.Index(g.waiting, p); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // granted meanwhile
		g.out--
		g.grant()
	}

	return nil, err
}

// leave ends a pass with the relay's answer, which is empty if none came.
func (g *gate) leave(p *pass, a ack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out--
	g.note(a, p.slowed == g.slowed)
}

// noteLate takes an answer that nobody waits for any more, because other relays were
// faster. It still shows whether the relay is rate limiting us.
func (g *gate) noteLate(a ack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note(a, !g.paused)
}

// note adjusts the window to an answer. A refusal counts only if its event was sent
// after the last pause: earlier ones were refused for the same reason. The caller
// holds mu.
func (g *gate) note(a ack, counts bool) {
	switch {
	case a.accepted:
		g.window = min(g.window+1, maxPublishing)
		g.pause, g.text = 0, ""
	case isRateLimited(a.text) && counts:
		g.slow(a.text)
	}
	g.grant()
}

// slow closes the gate for a while; half of the pause is random, so that clients do
// not return together. The caller holds mu.
func (g *gate) slow(text string) {
	g.slowed++
	g.text, g.window, g.paused = text, 1, true
	g.pause = min(max(2*g.pause, shortPause), longPause)
	time.AfterFunc(g.pause/2+rand.N(g.pause/2+1), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.paused = false
		g.grant()
	})
}

// grant lets waiting events through while there is room. The caller holds mu.
func (g *gate) grant() {
	for !g.paused && g.out < g.window && len(g.waiting) > 0 {
		p := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.out++
		p.slowed = g.slowed
		close(p.granted)
	}
}

// refusal is the relay's reason for making events wait; "" if it gave none.
func (g *gate) refusal() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text
}
