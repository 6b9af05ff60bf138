package server

import (
	"sync"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// index finds the subscriptions that an event may concern without trying each:
// every filter is entered under the values of one condition, the most
// selective that it has.
type index struct {
	mu   sync.RWMutex
	keys map[string]map[*subscription]struct{}
}

func newIndex() *index {
	return &index{keys: map[string]map[*subscription]struct{}{}}
}

// The first byte of a key tells the condition.
const (
	keyAll    = "*"
	keyID     = "i"
	keyTag    = "#" // and the tag's letter
	keyAuthor = "a"
	keyKind   = "k"
)

// kindKey packs a kind, which NIP-01 bounds to 16 bits.
func kindKey(kind int) string { return keyKind + string([]byte{byte(kind >> 8), byte(kind)}) }

// filterKeys returns the keys of one filter. A filter with an empty list
// matches nothing and has none.
func filterKeys(f *nostr.Filter) []string {
	if f.IDs != nil {
		return prefixed(keyID, f.IDs)
	}
	if tag := fewest(f.Tags); tag != "" {
		return prefixed(keyTag+tag, f.Tags[tag])
	}
	if f.Authors != nil {
		return prefixed(keyAuthor, f.Authors)
	}
	if f.Kinds != nil {
		keys := make([]string, len(f.Kinds))
		for i, k := range f.Kinds {
			keys[i] = kindKey(k)
		}
		return keys
	}
	return []string{keyAll}
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

func prefixed(prefix string, values []string) []string {
	keys := make([]string, len(values))
	for i, v := range values {
		keys[i] = prefix + v
	}
	return keys
}

func (x *index) add(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range sub.filters {
		for _, k := range filterKeys(&sub.filters[i]) {
			set := x.keys[k]
			if set == nil {
				set = map[*subscription]struct{}{}
				x.keys[k] = set
			}
			set[sub] = struct{}{}
		}
	}
}

func (x *index) remove(sub *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range sub.filters {
		for _, k := range filterKeys(&sub.filters[i]) {
			delete(x.keys[k], sub)
			if len(x.keys[k]) == 0 {
				delete(x.keys, k)
			}
		}
	}
}

// matching returns every subscription with a filter that the event matches,
// each once.
func (x *index) matching(ev *nostr.Event) []*subscription {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []*subscription
	tried := map[*subscription]struct{}{}
	try := func(key string) {
		for sub := range x.keys[key] {
			if _, ok := tried[sub]; ok {
				continue
			}
			tried[sub] = struct{}{}
			if nostr.Filters(sub.filters).Match(ev) {
				found = append(found, sub)
			}
		}
	}
	try(keyAll)
	try(keyID + ev.ID)
	try(keyAuthor + ev.PubKey)
	try(kindKey(ev.Kind))
	for _, tag := range ev.Tags {
		if len(tag) >= 2 && nip01.IsIndexed(tag[0]) {
			try(keyTag + tag[0] + tag[1])
		}
	}
	return found
}
