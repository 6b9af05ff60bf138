package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// subscription is a REQ. While its stored events are being sent, live ones wait in
// backlog: they must follow EOSE, and may be among the stored ones.
type subscription struct {
	client    *client
	id        string
	filters   []nostr.Filter
	matchers  []*matcher // for live events; owned by the client's reader
	lastMatch uint64     // number of the last matching event; owned by the spreading goroutine

	mu      sync.Mutex
	ended   bool
	live    bool
	backlog []*job
	// skip are events sent as stored whose broadcast was still under way when
	// the subscription went live.
	skip map[string]struct{}
}

// deliver sends a live event; if now is not nil, it is a buffer for sending at once
// where possible. It is called by the publishing goroutines and never blocks.
func (s *subscription) deliver(j *job, now *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.ended {
		return
	}
	if s.live {
		if _, ok := s.skip[j.event.ID]; ok {
			delete(s.skip, j.event.ID)
			return
		}
		if f := (frame{subID: s.id, event: j.raw}); now != nil {
			s.client.sendNow(f, now)
		} else {
			s.client.send(f)
		}
		return
	}

	if !s.client.out.hold(len(j.raw) + frameOverhead) {
		s.client.drop(errSlowReader)
		return
	}
	s.backlog = append(s.backlog, j)
}

// goLive sends EOSE, then the events of the backlog that were not sent as stored ones.
func (s *subscription) goLive(sent map[string]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelEOSE, s.id)})
	for _, j := range s.backlog {
		s.client.out.release(len(j.raw) + frameOverhead)
		if _, ok := sent[j.event.ID]; !ok {
			s.client.send(frame{subID: s.id, event: j.raw})
		}
	}
	s.live, s.backlog = true, nil
	s.skip = s.client.srv.spreading.among(sent)
}

// end drops the backlog and stops deliveries to the subscription.
func (s *subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.backlog {
		s.client.out.release(len(j.raw) + frameOverhead)
	}
	s.ended, s.backlog = true, nil
}

func (c *client) unsubscribe(id string) {
	if sub, ok := c.subs[id]; ok {
		c.srv.index.remove(sub)
		sub.end()
		delete(c.subs, id)
	}
}

// subscribe answers a REQ. It runs on the reader's goroutine, so that a client cannot
// pile up requests: its next message is read after this one is answered.
func (c *client) subscribe(ctx context.Context, id string, filters []nostr.Filter) error {
	c.unsubscribe(id) // "in which case relay MUST overwrite the previous subscription"
	if limit := c.srv.cfg.Limits.MaxSubscriptions; len(c.subs) >= limit {
		c.sendClosed(id, fmt.Sprintf("rate-limited: more than %d subscriptions", limit))
		return nil
	}
	if reason := c.admitFilters(filters, true); reason != "" {
		c.sendClosed(id, reason)
		return nil
	}

	// The subscription is added before the query begins, so that no event is missed:
	// one that is not durable yet when the query begins is delivered live.
	sub := &subscription{client: c, id: id, filters: filters}
	if !c.srv.index.add(sub) {
		c.sendClosed(id, "error: too many filter values")
		return nil
	}
	c.subs[id] = sub
	q := c.srv.request(c.queryClient, c.identity.keys())
	defer q.observe(nip01.LabelReq)

	sent := map[string]struct{}{}
	for i := range filters {
		if err := c.sendStored(ctx, q, sub, &filters[i], sent); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.unsubscribe(id)
			c.queryFailed(id, err)
			return nil
		}
	}

	sub.goLive(sent)
	return nil
}

// queryFailed refuses a request whose query failed.
func (c *client) queryFailed(id string, err error) {
	if errors.Is(err, errTooMuch) {
		c.sendClosed(id, "error: "+errTooMuch.Error())
		return
	}
	c.log.Warn("query stored events", "error", err)
	c.sendClosed(id, "error: the query did not finish")
}

// sendStored sends the stored events of one filter, newest first, as fast as the
// client reads. It holds no database reader while it waits for the client.
func (c *client) sendStored(ctx context.Context, q *request, sub *subscription, f *nostr.Filter, sent map[string]struct{}) error {
	rows, err := q.find(ctx, f)
	if err != nil {
		return err
	}

	for len(rows) > 0 {
		n := min(len(rows), loadChunk)
		events, err := q.load(ctx, rows[:n], f)
		if err != nil {
			return err
		}
		rows = rows[n:]

		for _, e := range events {
			if _, ok := sent[e.id]; ok {
				continue
			}
			if err := c.out.wait(ctx); err != nil {
				return err
			}
			sent[e.id] = struct{}{}
			c.send(frame{subID: sub.id, event: e.raw})
		}
	}

	return nil
}

// Cost of a delivery to its subscriber, in look-ups: for the queue, the websocket
// and the kernel, and for the bytes.
const (
	deliveryCost         = 100
	bytesPerDeliveryCost = 256
)

// maxSpread bounds the events that wait to be handed to subscribers.
const maxSpread = 64

// delivery is an item in a client's lane for the spreading goroutine: an event that
// may match its subscriptions, or the answer to an event that it published.
type delivery struct {
	to     *client
	job    *job
	answer bool
	text   string // of the answer, which is positive
}

// spreadLoop hands events to their subscribers. For each event it finds the clients
// that the event may concern; testing their filters and sending then counts against
// each client's own share of time. The answer to a client's own event is queued in
// its lane too, behind the event's delivery to its own subscriptions. The loop ends
// when the channel is closed and everything is delivered.
func (s *Server) spreadLoop() {
	var number uint64
	coming := s.spread
	for {
		coming = s.announceAll(coming)
		l, d, waiting := s.deliveries.pop()
		switch {
		case waiting:
			number++ // its filters are tested with one event at a time
			s.deliveries.charge(l, s.deliverTo(d, number))
		case coming == nil:
			return
		default:
			d, ok := <-coming
			coming = s.announce(d, ok, coming)
		}
	}
}

// announceAll announces all events that are stored by now, before the next
// delivery. Announcing is cheap compared to a delivery, and one event of a stranger
// can cause a delivery for each of his connections: other events would wait behind
// all of them.
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
// then the answer into the publisher's lane.
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

// deliverTo handles an item of a client's lane and returns its cost.
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

	// If no other event waits, this goroutine writes it itself, which is cheaper
	// than waking the clients' writers.
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

// spreading has the ids of stored events between their commit and the end of their
// deliveries. Such events can be found by a query and also arrive live.
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

// among returns the ids that are in sent, nil if there are none.
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
