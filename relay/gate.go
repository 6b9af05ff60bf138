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
	// After the first refusal nothing is published for about shortPause, after
	// each further one for twice as long, up to longPause.
	shortPause = 250 * time.Millisecond
	longPause  = 8 * time.Second
)

// tooFast reads a relay's refusal: what was sent is fine, but it was too much.
func tooFast(text string) bool { return strings.HasPrefix(text, "rate-limited:") }

// gate lets events out to a relay. A relay that says that they are too many gets
// none for a while, then one, and with each that it takes one more at once.
type gate struct {
	mu      sync.Mutex
	window  int // how many may be out
	out     int
	pause   time.Duration // the last one; 0 once an event was taken again
	paused  bool
	slowed  int     // how often
	text    string  // the relay's last word on it, "" once an event was taken again
	waiting []*pass // in the order of arrival
}

// pass is an event's way through a gate; granted is closed when it may go.
type pass struct {
	granted chan struct{}
	slowed  int // of the gate when it went
}

func newGate() *gate { return &gate{window: maxPublishing} }

// enter waits for the way out, which ends with leave: ErrDisconnected, ErrTimeout.
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

// leave ends an event's way with the relay's answer, if there was one.
func (g *gate) leave(p *pass, a ack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out--
	g.hear(a, p.slowed == g.slowed)
}

// late is told an answer that nobody waits for any more, since other relays were
// faster: this one counts its events all the same.
func (g *gate) late(a ack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hear(a, !g.paused)
}

// hear heeds an answer; a refusal counts if it is not of an event that was sent
// before the last one. The caller holds mu.
func (g *gate) hear(a ack, counts bool) {
	switch {
	case a.accepted:
		g.window = min(g.window+1, maxPublishing)
		g.pause, g.text = 0, ""
	case tooFast(a.text) && counts:
		g.slow(a.text)
	}
	g.grant()
}

// slow shuts the gate for a while, of which a half is chance. The caller holds mu.
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

// grant lets go who may. The caller holds mu.
func (g *gate) grant() {
	for !g.paused && g.out < g.window && len(g.waiting) > 0 {
		p := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.out++
		p.slowed = g.slowed
		close(p.granted)
	}
}

// refusal is why events wait, "" if nothing holds them up but each other.
func (g *gate) refusal() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text
}
