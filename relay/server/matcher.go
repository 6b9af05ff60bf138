package server

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// The first byte of a key tells the condition.
const (
	keyAll    = "*"
	keyID     = "i"
	keyTag    = "#" // and the tag's letter
	keyAuthor = "a"
	keyKind   = "k"
)

// keySeed makes keys unpredictable, so that nobody can construct values with the same
// key.
var keySeed = maphash.MakeSeed()

// keyOf hashes a value of a condition, so that a long value costs no more to compare
// than a short one.
func keyOf(prefix, value string) uint64 {
	var h maphash.Hash
	h.SetSeed(keySeed)
	h.WriteString(prefix)
	h.WriteString(value)
	return h.Sum64()
}

// kindValue packs a kind, which NIP-01 bounds to 16 bits.
func kindValue(kind int) string { return string([]byte{byte(kind >> 8), byte(kind)}) }

// target is an event, prepared for matching.
type target struct {
	event *nostr.Event
	keys  []uint64            // of all its values, each once
	value map[uint64]string   // of the tags' keys
	tags  map[string][]uint64 // the tags' keys by name

	id, author, kind uint64
}

func newTarget(ev *nostr.Event) *target {
	t := &target{
		event: ev, id: keyOf(keyID, ev.ID), author: keyOf(keyAuthor, ev.PubKey), kind: keyOf(keyKind, kindValue(ev.Kind)),
		value: map[uint64]string{}, tags: map[string][]uint64{},
	}
	t.keys = append(make([]uint64, 0, len(ev.Tags)+4), keyOf(keyAll, ""), t.id, t.author, t.kind)

	for _, tag := range ev.Tags {
		if len(tag) < 2 || !nip01.IsIndexed(tag[0]) {
			continue
		}
		key := keyOf(keyTag+tag[0], tag[1])
		if _, twice := t.value[key]; twice {
			continue
		}
		t.value[key] = tag[1]
		t.tags[tag[0]] = append(t.tags[tag[0]], key)
		t.keys = append(t.keys, key)
	}

	return t
}

// condition is the set of values of a filter's list, ordered by key. Nil matches
// everything, an empty one nothing.
type condition []conditionValue

type conditionValue struct {
	key   uint64
	value string
}

func newCondition(prefix string, values []string) condition {
	c := make(condition, len(values))
	for i, v := range values {
		c[i] = conditionValue{keyOf(prefix, v), v}
	}
	slices.SortFunc(c, func(a, b conditionValue) int { return cmp.Compare(a.key, b.key) })
	return slices.CompactFunc(c, func(a, b conditionValue) bool { return a.key == b.key })
}

func (c condition) has(key uint64, value string) bool {
	i, found := slices.BinarySearchFunc(c, key, func(v conditionValue, key uint64) int { return cmp.Compare(v.key, key) })
	return found && c[i].value == value
}

// meets reports whether the event has a tag with this name and one of the values,
// and the number of look-ups: at most the smaller of the number of values and the
// number of the event's tags.
func (c condition) meets(name string, t *target) (met bool, work int) {
	if have := t.tags[name]; len(have) < len(c) {
		for _, key := range have {
			work++
			if c.has(key, t.value[key]) {
				return true, work
			}
		}
		return false, work
	}

	for _, v := range c {
		work++
		if value, ok := t.value[v.key]; ok && value == v.value {
			return true, work
		}
	}
	return false, work
}

// matcher is one filter of a subscription, ready for live events.
type matcher struct {
	sub                 *subscription
	since, until        *nostr.Timestamp
	ids, authors, kinds condition
	tags                map[string]condition

	keys  []uint64 // the keys under which the index has it
	tried uint64   // number of the event that was last tested; owned by the spreading goroutine
}

func newMatcher(sub *subscription, f *nostr.Filter) *matcher {
	m := &matcher{sub: sub, since: f.Since, until: f.Until}
	if f.IDs != nil {
		m.ids = newCondition(keyID, f.IDs)
	}
	if f.Authors != nil {
		m.authors = newCondition(keyAuthor, f.Authors)
	}
	if f.Kinds != nil {
		kinds := make([]string, len(f.Kinds))
		for i, k := range f.Kinds {
			kinds[i] = kindValue(k)
		}
		m.kinds = newCondition(keyKind, kinds)
	}

	for name, values := range f.Tags {
		if m.tags == nil {
			m.tags = make(map[string]condition, len(f.Tags))
		}
		m.tags[name] = newCondition(keyTag+name, values)
	}

	return m
}

// matches reports whether the event matches, and the number of look-ups. It tests
// conditions with a single look-up first.
func (m *matcher) matches(t *target) (matched bool, work int) {
	ev := t.event
	if m.since != nil && ev.CreatedAt < *m.since || m.until != nil && ev.CreatedAt > *m.until {
		return false, 1
	}
	work = 3
	if m.ids != nil && !m.ids.has(t.id, ev.ID) ||
		m.authors != nil && !m.authors.has(t.author, ev.PubKey) ||
		m.kinds != nil && !m.kinds.has(t.kind, kindValue(ev.Kind)) {
		return false, work
	}

	for name, c := range m.tags {
		met, n := c.meets(name, t)
		if work += n; !met {
			return false, work
		}
	}

	return true, work
}

// choose returns the condition under which the filter is indexed: the one whose
// fullest key has the fewest filters of this client, so that an event touches few
// filters that it does not match. A tie goes to the condition with fewer values.
// Kinds and "everything" are used only by filters without other conditions.
func (m *matcher) choose(filters func(key uint64) int) condition {
	var best condition
	least, found := 0, false
	consider := func(c condition) {
		if c == nil {
			return
		}
		most := 0
		for _, v := range c {
			most = max(most, filters(v.key))
		}
		if !found || most < least || most == least && len(c) < len(best) {
			best, least, found = c, most, true
		}
	}
	consider(m.ids)
	consider(m.authors)
	for _, c := range m.tags {
		consider(c)
	}

	switch {
	case found:
		return best
	case m.kinds != nil:
		return m.kinds
	}

	return condition{{key: keyOf(keyAll, "")}}
}
