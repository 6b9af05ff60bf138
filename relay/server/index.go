package server

import (
	"hash/maphash"
	"sync"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// index finds the subscriptions that an event may concern without trying each:
// every filter is entered under the values of one condition, the most
// selective that it has.
//
// A value is entered as a hash, so that a long one costs no more than a short
// one; a collision only costs a filter that is tried and does not match.
type index struct {
	perClient, total int // bounds on the values of subscriptions
	seed             maphash.Seed

	mu      sync.RWMutex
	keys    map[uint64]bucket
	counted int   // values of all clients above freeValues
	open    int64 // subscriptions
}

// freeValues are what each client may subscribe to whatever the others have.
const freeValues = 500

// bucket holds the subscriptions under one key: the first, and the others in a
// map that few keys need.
type bucket struct {
	first *subscription
	more  map[*subscription]struct{}
}

func newIndex(perClient, total int) *index {
	return &index{perClient: perClient, total: total, seed: maphash.MakeSeed(), keys: map[uint64]bucket{}}
}

// The first byte of a key tells the condition.
const (
	keyAll    = "*"
	keyID     = "i"
	keyTag    = "#" // and the tag's letter
	keyAuthor = "a"
	keyKind   = "k"
)

func (x *index) key(prefix, value string) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	h.WriteString(prefix)
	h.WriteString(value)
	return h.Sum64()
}

// kindValue packs a kind, which NIP-01 bounds to 16 bits.
func kindValue(kind int) string { return string([]byte{byte(kind >> 8), byte(kind)}) }

// filterKeys calls enter with the keys of one filter. A filter with an empty
// list matches nothing and has none.
func (x *index) filterKeys(f *nostr.Filter, enter func(key uint64)) {
	all := func(prefix string, values []string) {
		for _, v := range values {
			enter(x.key(prefix, v))
		}
	}
	tag := fewest(f.Tags)
	switch {
	case f.IDs != nil:
		all(keyID, f.IDs)
	case tag != "":
		all(keyTag+tag, f.Tags[tag])
	case f.Authors != nil:
		all(keyAuthor, f.Authors)
	case f.Kinds != nil:
		for _, k := range f.Kinds {
			enter(x.key(keyKind, kindValue(k)))
		}
	default:
		enter(x.key(keyAll, ""))
	}
}

// fewest is the tag of the filter with the fewest values, "" if it has none.
// Equal counts go by name, so that a filter is removed as it was entered.
func fewest(tags nostr.TagMap) string {
	best := ""
	for name, values := range tags {
		if best == "" || len(values) < len(tags[best]) || len(values) == len(tags[best]) && name < best {
			best = name
		}
	}
	return best
}

// add enters a subscription, or reports that its client or all clients have
// too many values.
func (x *index) add(sub *subscription) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, n := sub.client, filterUnits(sub.filters)
	if c.values+n > x.perClient || x.counted+aboveFree(c.values+n)-aboveFree(c.values) > x.total {
		return false
	}
	x.charge(c, n)
	x.open++
	for i := range sub.filters {
		x.filterKeys(&sub.filters[i], func(key uint64) { x.enter(key, sub) })
	}
	return true
}

// len is the number of open subscriptions.
func (x *index) len() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.open
}

// charge counts n more values of the client's. The caller holds mu.
func (x *index) charge(c *client, n int) {
	x.counted -= aboveFree(c.values)
	c.values += n
	x.counted += aboveFree(c.values)
}

func aboveFree(values int) int { return max(0, values-freeValues) }

func (x *index) enter(key uint64, sub *subscription) {
	b := x.keys[key]
	switch {
	case b.first == nil:
		b.first = sub
	case b.first == sub:
	case b.more == nil:
		b.more = map[*subscription]struct{}{sub: {}}
	default:
		b.more[sub] = struct{}{}
	}
	x.keys[key] = b
}

// remove takes out a subscription that add has entered.
func (x *index) remove(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.charge(sub.client, -filterUnits(sub.filters))
	x.open--
	for i := range sub.filters {
		x.filterKeys(&sub.filters[i], func(key uint64) { x.leave(key, sub) })
	}
}

func (x *index) leave(key uint64, sub *subscription) {
	b := x.keys[key]
	delete(b.more, sub)
	if b.first == sub {
		b.first = nil
		for other := range b.more { // any of them moves up
			b.first = other
			delete(b.more, other)
			break
		}
	}
	if b.first == nil {
		delete(x.keys, key)
		return
	}
	x.keys[key] = b
}

// matching returns every subscription with a filter that the event matches,
// each once.
func (x *index) matching(ev *nostr.Event) []*subscription {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*subscription
	tried := map[*subscription]struct{}{}
	one := func(sub *subscription) {
		if _, ok := tried[sub]; ok {
			return
		}
		tried[sub] = struct{}{}
		if nostr.Filters(sub.filters).Match(ev) {
			found = append(found, sub)
		}
	}
	try := func(prefix, value string) {
		b := x.keys[x.key(prefix, value)]
		if b.first == nil {
			return
		}
		one(b.first)
		for sub := range b.more {
			one(sub)
		}
	}
	try(keyAll, "")
	try(keyID, ev.ID)
	try(keyAuthor, ev.PubKey)
	try(keyKind, kindValue(ev.Kind))
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && nip01.IsIndexed(tag[0]) {
			try(keyTag+tag[0], tag[1])
		}
	}
	return found
}
