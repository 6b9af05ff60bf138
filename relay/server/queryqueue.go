package server

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// maxQueries is one less than the store's readers: the verify workers need one
	// for the duplicate check.
	maxQueries = 3
	// spentHalfLife is the half-life of past query time.
	spentHalfLife = 10 * time.Second
	// The last free reader is reserved for light use: for connections with less
	// than heavySeconds of recent query time, and for queries that should take at
	// most lightQuery.
	heavySeconds = 0.5
	lightQuery   = 2 * time.Millisecond
)

// queryQueue decides which connection's query runs next: that of the connection that
// has used the least query time lately, with its address's time and the expected time
// of this query added. A client with many queries therefore delays only itself,
// however many connections it opens.
type queryQueue struct {
	mu        sync.Mutex // guards everything below, clients and addresses too
	free      int
	waiting   []*queryWait // in the order of arrival
	addresses map[string]*address
}

// queryWait is a query that waits; granted is closed when it may run.
type queryWait struct {
	of       *queryClient
	expected time.Duration
	granted  chan struct{}
}

// queryClient is the query time of one connection.
type queryClient struct {
	spent decayingTime
	at    *address
	name  string
}

// address is the query time of one address; it exists as long as it has connections.
type address struct {
	spent       decayingTime
	connections int
}

// decayingTime is query time that halves every half-life.
type decayingTime struct {
	seconds float64
	at      time.Time
}

func (s *decayingTime) now(now time.Time) float64 {
	if s.seconds == 0 {
		return 0
	}
	return s.seconds * math.Exp2(-float64(now.Sub(s.at))/float64(spentHalfLife))
}

func (s *decayingTime) add(now time.Time, d time.Duration) {
	s.seconds, s.at = s.now(now)+d.Seconds(), now
}

func newQueryQueue() *queryQueue {
	return &queryQueue{free: maxQueries, addresses: map[string]*address{}}
}

// join adds a connection of an address; leave removes it.
func (t *queryQueue) join(name string) *queryClient {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.addresses[name]
	if a == nil {
		a = &address{}
		t.addresses[name] = a
	}
	a.connections++
	return &queryClient{at: a, name: name}
}

func (t *queryQueue) leave(p *queryClient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.at.connections--; p.at.connections == 0 {
		delete(t.addresses, p.name)
	}
}

// acquire waits until a query that is expected to take about this long may run.
// release ends the query.
func (t *queryQueue) acquire(ctx context.Context, p *queryClient, expected time.Duration) error {
	w := &queryWait{of: p, expected: expected, granted: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.grant(time.Now())
	t.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // granted in the meantime
		t.free++
		t.grant(time.Now())
	}

	return ctx.Err()
}

// release ends a query that took d.
func (t *queryQueue) release(p *queryClient, d time.Duration) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p.spent.add(now, d)
	p.at.spent.add(now, d)
	t.free++
	t.grant(now)
}

// grant lets waiting queries run while readers are free. The caller holds mu.
func (t *queryQueue) grant(now time.Time) {
	for t.free > 0 {
		best, least := -1, math.Inf(1)
		for i, w := range t.waiting {
			own := w.of.spent.now(now)
			if t.free == 1 && (own > heavySeconds || w.expected > lightQuery) {
				continue // tried again when a running query ends
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
