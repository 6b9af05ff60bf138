package server

import (
	"sync"
)

// What a delivery costs its subscriber, in look-ups: its share of the queue, of
// the websocket and of the kernel, and something for its bytes.
const (
	deliveryCost         = 100
	bytesPerDeliveryCost = 256
)

// maxSpread is how many events may wait to be handed to subscribers.
const maxSpread = 64

// delivery is something that waits in a client's lane of the spreading: an event
// that may concern its subscriptions, or the answer to one that it published.
type delivery struct {
	to     *client
	job    *job
	answer bool
	text   string // of the answer, which accepts
}

// spreadLoop hands events to their subscribers. For each event it finds the
// clients that it may concern; what comes then, to try their filters and to
// send, each client has done in its own share of the time. A client's own events
// are answered in its lane too: after they have come to its own subscriptions,
// and no sooner than its subscriptions let it. It ends when the channel is
// closed and all is delivered.
func (s *Server) spreadLoop() {
	var number uint64
	coming := s.spread
	for {
		coming = s.announceAll(coming)
		l, d, waiting := s.deliveries.pop()
		switch {
		case waiting:
			number++ // its filters are tried on one event at a time
			s.deliveries.charge(l, s.deliverTo(d, number))
		case coming == nil:
			return
		default:
			d, ok := <-coming
			coming = s.announce(d, ok, coming)
		}
	}
}

// announceAll announces what is stored by now, before the next delivery. That is cheap
// beside a delivery, of which a stranger's event can bring about one for each of his
// connections: an event that waited here behind his would wait for one of them each.
func (s *Server) announceAll(coming chan delivery) chan delivery {
	for range maxSpread {
		select {
		case d, ok := <-coming:
			coming = s.announce(d, ok, coming)
		default:
			return coming
		}
	}
	return coming
}

// announce puts an event into the lanes of the clients that it may concern, and
// then its answer into that of who published it.
func (s *Server) announce(d delivery, ok bool, coming chan delivery) chan delivery {
	if !ok {
		return nil
	}
	j := d.job
	j.target = newTarget(j.event)
	s.announced++
	s.index.touched(j.target, func(c *client) {
		if c.announced == s.announced {
			return
		}
		c.announced = s.announced
		if !c.out.hold(len(j.raw) + frameOverhead) {
			c.drop(errOverload)
			return
		}
		j.spreading++
		s.deliveries.push(&c.toSpread, delivery{to: c, job: j})
	})
	if j.spreading > 0 {
		s.underway++
	} else {
		s.spreading.end(j)
	}

	s.deliveries.push(&d.to.toSpread, d)
	return coming
}

// deliverTo does what waited in a client's lane, and returns its cost.
func (s *Server) deliverTo(d delivery, number uint64) (cost int64) {
	j, c := d.job, d.to
	if d.answer {
		j.finish(true, d.text)
		return 1
	}
	c.out.release(len(j.raw) + frameOverhead)
	found, work := c.live.matching(j.target, number)
	s.metrics.lookups.Add(float64(work))
	if len(found) > 0 && s.private(j.event.Kind) && !c.identity.party(j.event) {
		found = nil
	}

	// An event that is alone is written by this goroutine: that costs less than to
	// wake those of the clients.
	var now *[]byte
	if s.underway == 1 && len(s.spread) == 0 {
		now = new([]byte)
	}
	for _, sub := range found {
		s.metrics.delivered.Inc()
		sub.deliver(j, now)
	}

	if j.spreading--; j.spreading == 0 {
		s.underway--
		s.spreading.end(j)
	}

	return int64(work + len(found)*(deliveryCost+len(j.raw)/bytesPerDeliveryCost))
}

// spreading holds the ids of stored events between their commit and the end of
// their deliveries: events that a query may find and that also come live.
type spreading struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

func (s *spreading) begin(batch []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = make(map[string]struct{}, len(batch))
	}
	for _, j := range batch {
		s.ids[j.event.ID] = struct{}{}
	}
}

func (s *spreading) end(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, j.event.ID)
}

// among returns those that are in sent, nil if there are none.
func (s *spreading) among(sent map[string]struct{}) map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()

	few, many := s.ids, sent
	if len(many) < len(few) {
		few, many = many, few
	}

	var both map[string]struct{}
	for id := range few {
		if _, ok := many[id]; ok {
			if both == nil {
				both = map[string]struct{}{}
			}
			both[id] = struct{}{}
		}
	}

	return both
}
