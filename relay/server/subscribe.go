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
	client   *client
	id       string
	filters  []nostr.Filter
	matchers []*matcher // for live events; the client's reader's
	found    uint64     // the number of the event that was last found to match; the spreading goroutine's

	mu      sync.Mutex
	ended   bool
	live    bool
	backlog []*job
	// skip are events sent as stored whose broadcast was still under way when
	// the subscription went live.
	skip map[string]struct{}
}

// deliver sends a live event, at once if it can be where now is not nil, which
// is room for it. It is called by the goroutines that publish and never blocks.
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

// end drops the backlog. Nothing is delivered to the subscription any more.
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
		c.closed(id, fmt.Sprintf("rate-limited: more than %d subscriptions", limit))
		return nil
	}
	if reason := c.admitFilters(filters, true); reason != "" {
		c.closed(id, reason)
		return nil
	}

	// The subscription is added before the query begins, so that no event is missed:
	// one that is not durable yet when the query begins is delivered live.
	sub := &subscription{client: c, id: id, filters: filters}
	if !c.srv.index.add(sub) {
		c.closed(id, "error: too many filter values")
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
		c.closed(id, "error: "+errTooMuch.Error())
		return
	}
	c.log.Warn("query stored events", "error", err)
	c.closed(id, "error: the query did not finish")
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
