package server

import (
	"slices"
	"sync"
)

// index finds the clients whose subscriptions an event may match without trying them
// all: every filter is indexed by the values of one of its conditions. The matching
// filters of a client are found separately (see liveFilters), so that many filters
// cost only the client that has them.
type index struct {
	perClient, perHost, total int // bounds on the values of subscriptions

	mu      sync.RWMutex
	keys    map[uint64]holders
	counted int   // values of all clients, without the first freeValues of each
	open    int64 // subscriptions
}

// freeValues is how many values each client may always subscribe to.
const freeValues = 500

// enterChunk bounds the keys added under one lock, because events wait meanwhile.
const enterChunk = 256

// holders are the clients with filters under one key: the first one, and the others
// in a map, which few keys need.
type holders struct {
	first *client
	more  map[*client]struct{}
}

func newIndex(perClient, total int) *index {
	return &index{perClient: perClient, perHost: total / hostValues, total: total, keys: map[uint64]holders{}}
}

// liveFilters are the filters of one client's subscriptions by their keys.
type liveFilters struct {
	mu    sync.Mutex
	byKey map[uint64][]*matcher
}

// add adds a subscription with the given number of values (see filterUnits), or
// reports that its client, its address or all clients have too many values. Like
// remove, it is called by the client's reader.
func (x *index) add(sub *subscription) bool {
	c := sub.client
	n := filterUnits(sub.filters)
	if !x.admit(c, n) {
		return false
	}

	var fresh []uint64 // keys under which the client had no filter before
	for i := range sub.filters {
		m := newMatcher(sub, &sub.filters[i])
		fresh = append(fresh, c.live.enter(m)...)
		sub.matchers = append(sub.matchers, m)
	}

	for keys := range slices.Chunk(fresh, enterChunk) {
		x.mu.Lock()
		for _, key := range keys {
			x.enter(key, c)
		}
		x.mu.Unlock()
	}

	return true
}

// admit charges the client for n more values if its limits allow them.
func (x *index) admit(c *client, n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	more := aboveFree(c.values+n) - aboveFree(c.values)
	if c.values+n > x.perClient || x.counted+more > x.total || !c.host.unbounded && c.host.values+more > x.perHost {
		return false
	}
	x.charge(c, n)
	x.open++
	return true
}

// len is the number of open subscriptions.
func (x *index) len() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.open
}

// charge adds n values to the client's count. The caller holds mu.
func (x *index) charge(c *client, n int) {
	more := aboveFree(c.values+n) - aboveFree(c.values)
	c.values += n
	c.host.values += more
	x.counted += more
}

func aboveFree(values int) int { return max(0, values-freeValues) }

func (x *index) enter(key uint64, c *client) {
	h := x.keys[key]
	switch {
	case h.first == nil:
		h.first = c
	case h.more == nil:
		h.more = map[*client]struct{}{c: {}}
	default:
		h.more[c] = struct{}{}
	}
	x.keys[key] = h
}

// remove removes a subscription that add has accepted.
func (x *index) remove(sub *subscription) {
	c := sub.client
	var last []uint64 // keys under which the client has no filters left
	for _, m := range sub.matchers {
		last = append(last, c.live.leave(m)...)
	}

	for keys := range slices.Chunk(last, enterChunk) {
		x.mu.Lock()
		for _, key := range keys {
			x.leave(key, c)
		}
		x.mu.Unlock()
	}

	x.mu.Lock()
	defer x.mu.Unlock()

	x.charge(c, -filterUnits(sub.filters))
	x.open--
}

func (x *index) leave(key uint64, c *client) {
	h := x.keys[key]
	delete(h.more, c)
	if h.first == c {
		h.first = nil
		for other := range h.more { // any of them takes its place
			h.first = other
			delete(h.more, other)
			break
		}
	}

	if h.first == nil {
		delete(x.keys, key)
		return
	}
	x.keys[key] = h
}

// touched calls found for every client with a filter under one of the event's keys,
// possibly several times, and returns the number of look-ups.
func (x *index) touched(t *target, found func(*client)) (work int) {
	x.mu.RLock()
	defer x.mu.RUnlock()

	for _, key := range t.keys {
		h := x.keys[key]
		work += 1 + len(h.more)
		if h.first == nil {
			continue
		}
		found(h.first)
		for c := range h.more {
			found(c)
		}
	}

	return work
}

// enter adds a filter and returns those of its keys that had none.
func (l *liveFilters) enter(m *matcher) (fresh []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.byKey == nil {
		l.byKey = map[uint64][]*matcher{}
	}

	for _, v := range m.choose(func(key uint64) int { return len(l.byKey[key]) }) {
		m.keys = append(m.keys, v.key)
		if len(l.byKey[v.key]) == 0 {
			fresh = append(fresh, v.key)
		}
		l.byKey[v.key] = append(l.byKey[v.key], m)
	}

	return fresh
}

// leave removes a filter and returns those of its keys that have none left.
func (l *liveFilters) leave(m *matcher) (last []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, key := range m.keys {
		list := l.byKey[key]
		i := slices.Index(list, m)
		list[i] = list[len(list)-1]
		list[len(list)-1] = nil
		if list = list[:len(list)-1]; len(list) > 0 {
			l.byKey[key] = list
			continue
		}
		delete(l.byKey, key)
		last = append(last, key)
	}

	return last
}

// matching returns the client's subscriptions that match the event, each once, and
// the number of look-ups: at most one for each key of the event plus the number of
// values in the client's filters. number must differ for each event.
func (l *liveFilters) matching(t *target, number uint64) (found []*subscription, work int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, key := range t.keys {
		work++

		for _, m := range l.byKey[key] {
			work++
			if m.tried == number || m.sub.lastMatch == number {
				continue
			}
			m.tried = number
			matched, n := m.matches(t)
			if work += n; matched {
				m.sub.lastMatch = number
				found = append(found, m.sub)
			}
		}
	}

	return found, work
}
