package relay

import (
	"context"
	"fmt"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

// SubscribeOptions are optional parts of a [Subscription].
type SubscribeOptions struct {
	// Since, if not nil, is called at every connection and returns the time from
	// which stored events are wanted, such as the reader's durable cursor. At a
	// relay's first connection it replaces the filters' since; later the earlier of
	// it and the loss of the connection is used. Zero or less is ignored. It must
	// not call the subscription.
	Since func() nostr.Timestamp
	// OnEOSE, if not nil, is called when a relay has sent its stored events,
	// also after each reconnection. It must not block.
	OnEOSE func(relay string)
}

// Incoming is an event that passed every check: size, filter, id, signature.
type Incoming struct {
	Event nostr.Event
	Relay string // the relay that was the first to send it
}

// Subscription delivers events until [Subscription.Close], the end of its context,
// or the end of the pool.
type Subscription struct {
	pool    *Pool
	filters nostr.Filters
	opt     SubscribeOptions
	started nostr.Timestamp

	events    chan Incoming
	ready     chan struct{}
	wake      chan struct{} // capacity 1: the queue has something
	done      chan struct{}
	pumpEnded chan struct{} // closed when the pump has returned
	unbind    func() bool   // from the caller's context

	mu     sync.Mutex
	queue  []Incoming
	seen   *seen
	tails  map[*link]*tail
	isLive bool // ready is closed
	closed bool
}

// Subscribe requests the events that match any of the filters from every relay, now
// and after each reconnection, and delivers each event once. A filter's limit
// applies to the first answer of each relay; limit 0 means only events from now on.
// Wait for [Subscription.Ready] before publishing an event whose answers should come.
func (p *Pool) Subscribe(ctx context.Context, filters []nostr.Filter, opt SubscribeOptions) (*Subscription, error) {
	if len(filters) == 0 {
		return nil, fmt.Errorf("%w: no filters", ErrConfig)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	s := &Subscription{
		pool:      p,
		opt:       opt,
		started:   now(),
		events:    make(chan Incoming),
		ready:     make(chan struct{}),
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		pumpEnded: make(chan struct{}),
		seen:      newSeen(seenIDs),
		tails:     map[*link]*tail{},
	}
	for i := range filters {
		s.filters = append(s.filters, filters[i].Clone())
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.subs[s] = struct{}{}
	p.mu.Unlock()

	go s.pump()

	for _, l := range p.links {
		l.mu.Lock()
		session := l.session
		l.mu.Unlock()
		if session != nil {
			s.attach(l, session)
		}
	}

	unbind := context.AfterFunc(ctx, s.Close)
	s.mu.Lock()
	s.unbind = unbind
	s.mu.Unlock()
	return s, nil
}

// Events returns the channel of events. It is closed when the subscription has ended.
func (s *Subscription) Events() <-chan Incoming { return s.events }

// Ready is closed when at least one relay has accepted the subscription. Events
// published to that relay from then on will be delivered.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Close ends the subscription and returns when Events is closed. Calling it
// again is harmless.
func (s *Subscription) Close() {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		close(s.done)
		for _, t := range s.tails {
			t.stop()
		}
		if s.unbind != nil {
			s.unbind()
		}
	}

	s.mu.Unlock()
	if first {
		s.pool.mu.Lock()
		delete(s.pool.subs, s)
		s.pool.mu.Unlock()
	}

	<-s.pumpEnded
}

// pump sends the queued events to the reader. It is the only goroutine that a slow
// reader blocks.
func (s *Subscription) pump() {
	defer close(s.pumpEnded)
	defer close(s.events)

	for {
		in, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-s.done:
				return
			}
		}

		select {
		case s.events <- in:
		case <-s.done:
			return
		}
	}
}

// next takes an event from the queue. When the queue is empty, the tails fetch the
// events that they had to drop.
func (s *Subscription) next() (Incoming, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.queue) == 0 {
		for _, t := range s.tails {
			t.refetch()
		}
		return Incoming{}, false
	}
	in := s.queue[0]
	s.queue[0] = Incoming{}
	s.queue = s.queue[1:]
	return in, true
}

// put queues an event that t verified. False means that the queue is full and
// the event has to be fetched again; s.mu is held.
func (s *Subscription) put(t *tail, ev *nostr.Event) bool {
	if s.seen.has(ev.ID) {
		return true
	}
	if len(s.queue) >= s.pool.cfg.QueueEvents {
		return false
	}

	s.seen.add(ev.ID)
	s.queue = append(s.queue, Incoming{Event: *ev, Relay: t.link.url})
	select {
	case s.wake <- struct{}{}:
	default:
	}

	return true
}

// markReady records that a relay has accepted the subscription; s.mu is held.
func (s *Subscription) markReady() {
	if !s.isLive {
		s.isLive = true
		close(s.ready)
	}
}

// attach starts the subscription on a connection, once.
func (s *Subscription) attach(l *link, on *session) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed {
		return
	}
	t := s.tails[l]
	if t == nil {
		t = &tail{sub: s, link: l}
		s.tails[l] = t
	}

	if t.session != on {
		t.attach(on)
	}
}

// detach notes the end of a connection.
func (s *Subscription) detach(l *link, from *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tails[l]; t != nil && t.session == from {
		t.detach()
	}
}
