package server

import (
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// Costs are in units of a small event. They are what the rate limit, the
// events in flight and the size of a commit are counted in, so that a large
// message is no cheaper than the small ones it could have been.
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

// cost is how many rows and index entries the scan is expected to read: one for
// each value that it looks up, and what it may find.
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
	unitsPerFilter = 4  // a filter costs memory without any value
	bytesPerValue  = 64 // a longer one counts as several
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
