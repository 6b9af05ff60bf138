package server

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// maxQueries leaves one of the store's readers to the duplicate check of
	// the verify workers.
	maxQueries = 3
	// spentHalfLife is how fast used query time is forgotten.
	spentHalfLife = 10 * time.Second
	// heavySeconds of remembered query time bar a connection from the last
	// free turn, which is kept for those who ask little. So does a query that
	// is expected to take longer than lightQuery.
	heavySeconds = 0.5
	lightQuery   = 2 * time.Millisecond
)

// turns shares the running queries among the connections: the next one is of
// the connection that used least query time lately, its address and what it
// asks for now counted in. So one that asks much waits for itself, however many
// connections it opens, and new ones do not come before who asks little.
type turns struct {
	mu        sync.Mutex // guards everything below, patrons and addresses too
	free      int
	waiting   []*turn // in the order of arrival
	addresses map[string]*address
}

// turn is a wait for a query; granted is closed when it may run.
type turn struct {
	of       *patron
	expected time.Duration
	granted  chan struct{}
}

// patron is a connection as the turns know it.
type patron struct {
	spent spent
	at    *address
	name  string
}

// address is where connections come from, as long as there is one.
type address struct {
	spent       spent
	connections int
}

// spent is query time, of which half is forgotten every half-life.
type spent struct {
	seconds float64
	at      time.Time
}

func (s *spent) now(now time.Time) float64 {
	if s.seconds == 0 {
		return 0
	}
	return s.seconds * math.Exp2(-float64(now.Sub(s.at))/float64(spentHalfLife))
}

func (s *spent) add(now time.Time, d time.Duration) {
	s.seconds, s.at = s.now(now)+d.Seconds(), now
}

func newTurns() *turns {
	return &turns{free: maxQueries, addresses: map[string]*address{}}
}

// join enters a connection of an address; it leaves with leave.
func (t *turns) join(name string) *patron {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.addresses[name]
	if a == nil {
		a = &address{}
		t.addresses[name] = a
	}
	a.connections++
	return &patron{at: a, name: name}
}

func (t *turns) leave(p *patron) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.at.connections--; p.at.connections == 0 {
		delete(t.addresses, p.name)
	}
}

// acquire waits for a turn that is expected to take so long, roughly. It ends
// with release.
func (t *turns) acquire(ctx context.Context, p *patron, expected time.Duration) error {
	mine := &turn{of: p, expected: expected, granted: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, mine)
	t.grant(time.Now())
	t.mu.Unlock()
	select {
	case <-mine.granted:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, mine); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // granted meanwhile
		t.free++
		t.grant(time.Now())
	}
	return ctx.Err()
}

// release ends a turn that took d.
func (t *turns) release(p *patron, d time.Duration) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p.spent.add(now, d)
	p.at.spent.add(now, d)
	t.free++
	t.grant(now)
}

// grant gives the free turns away. The caller holds mu.
func (t *turns) grant(now time.Time) {
	for t.free > 0 {
		best, least := -1, math.Inf(1)
		for i, w := range t.waiting {
			own := w.of.spent.now(now)
			if t.free == 1 && (own > heavySeconds || w.expected > lightQuery) {
				continue // the turns that are running come here again
			}
			if s := own + w.of.at.spent.now(now) + w.expected.Seconds(); s < least {
				best, least = i, s
			}
		}
		if best < 0 {
			return
		}
		next := t.waiting[best]
		t.waiting = slices.Delete(t.waiting, best, best+1)
		t.free--
		close(next.granted)
	}
}
