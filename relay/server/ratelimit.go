package server

import (
	"context"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// A client that exceeds its rate is slowed down: the relay answers its message and
// then stops reading from it until the cost is covered. The client's further messages
// wait in its own socket, so they take neither memory nor parsing here.
const (
	// maxDelay is the longest pause that a client's messages may cause. A message
	// that needs a longer one is refused.
	maxDelay = time.Second
	// refusalPause is the pause in reading after a refusal.
	refusalPause = 100 * time.Millisecond
)

// charge charges the client for a message of this cost. It reports false, and charges
// nothing, if the message must be refused. It is called by the client's reader.
func (c *client) charge(cost int) bool {
	now := time.Now()
	cost = min(cost, c.limiter.Burst())
	if c.secondsOwed(now, cost) > maxDelay.Seconds() {
		return false
	}
	c.reserve(now, cost)
	return true
}

// penalize charges the client for an event with a false id or signature. Honest
// clients send none, and finding out is the most expensive work for a message. A
// client that is maxDelay behind already is not charged further.
func (c *client) penalize() {
	now := time.Now()
	if c.secondsOwed(now, 0) < maxDelay.Seconds() {
		c.reserve(now, min(forgeryCost, c.limiter.Burst()))
	}
}

// reserve charges both the client and its address.
func (c *client) reserve(now time.Time, cost int) {
	c.limiter.ReserveN(now, cost)
	if c.host.limiter != nil {
		c.host.limiter.ReserveN(now, cost)
	}
}

// secondsOwed is how many seconds the client must wait until its messages, and a
// further one of cost more, are within its own rate and its address's.
func (c *client) secondsOwed(now time.Time, more int) float64 {
	seconds := secondsToPay(c.limiter, now, more)
	if c.host.limiter != nil {
		seconds = max(seconds, secondsToPay(c.host.limiter, now, more))
	}
	return seconds
}

func secondsToPay(l *rate.Limiter, now time.Time, more int) float64 {
	seconds := float64(more) - l.TokensAt(now)
	if seconds <= 0 {
		return 0
	}
	return seconds / float64(l.Limit())
}

// throttle waits until the client is within its rate, but at most maxDelay.
func (c *client) throttle(ctx context.Context) error {
	seconds := min(c.secondsOwed(time.Now(), 0), maxDelay.Seconds())
	if seconds == 0 {
		return nil
	}
	c.srv.metrics.slowed.Add(seconds)
	return pause(ctx, time.Duration(seconds*float64(time.Second)))
}

// pause waits for d, or returns the cause if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A small event costs one unit. The rate limit, the events in flight and the size of
// a commit are counted in units, so that a large message costs as much as the small
// ones that would do the same work.
const (
	bytesPerUnit   = 16 << 10
	tagsPerUnit    = 16 // each is an index entry
	targetsPerUnit = 4  // each is a lookup, a tombstone and perhaps a removal
	valuesPerUnit  = 64 // each is a lookup and an entry of the live index
	forgeryCost    = 400
)

// eventCost is the work of storing an event of size bytes.
func eventCost(ev *nostr.Event, size int) int {
	return 1 + size/bytesPerUnit + len(ev.Tags)/tagsPerUnit + deletions(ev)/targetsPerUnit
}

// messageCost is the work of a client's message of size bytes.
func messageCost(m *nip01.ClientMessage, size int) int {
	if m.Label == nip01.LabelEvent {
		return eventCost(&m.Event, size)
	}
	return 1 + size/bytesPerUnit + filterUnits(m.Filters)/valuesPerUnit
}

// deletions is how many targets a kind 5 event names.
func deletions(ev *nostr.Event) int {
	if ev.Kind != nostr.KindDeletion {
		return 0
	}
	n := 0
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && (tag[0] == "e" || tag[0] == "a") {
			n++
		}
	}
	return n
}

// cost is how many rows and index entries the scan is expected to read: one for each
// value that it looks up, and its limit.
func (q *scan) cost() int {
	rows := q.limit
	switch ids := q.filter.IDs; {
	case ids != nil:
		rows = len(ids)
	case q.counted != nil:
		rows = maxSet // without a limit
	}
	return filterUnits([]nostr.Filter{*q.filter}) + rows
}

const (
	unitsPerFilter = 4  // an empty filter takes memory too
	bytesPerValue  = 64 // a longer value counts as several
)

// filterUnits is the memory of a REQ, counted in values.
func filterUnits(filters []nostr.Filter) int {
	n := 0
	add := func(values []string) {
		for _, v := range values {
			n += 1 + len(v)/(bytesPerValue+1)
		}
	}

	for i := range filters {
		f := &filters[i]
		n += unitsPerFilter + len(f.Kinds)
		add(f.IDs)
		add(f.Authors)
		for _, values := range f.Tags {
			add(values)
		}
	}
	return n
}
