package publish

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
)

const (
	// inboxMax is how many relays of its own a buyer may have answered on.
	inboxMax = 3
	// readersMax bounds the jobs of which that is remembered.
	readersMax = 4096
)

// inboxRelays knows on which further relays buyers want to read: those that the
// request names, then those of the buyer's relay list (NIP-65).
type inboxRelays struct {
	own   func() []string
	lists *readLists

	mu   sync.Mutex
	jobs map[string]reader // by request id
	ring []string
	next int
}

// reader is who is answered, and where its request wants that.
type reader struct {
	buyer string
	urls  []string
}

func newInboxRelays(m Market) *inboxRelays {
	return &inboxRelays{own: m.Relays, lists: newReadLists(m.Query), jobs: map[string]reader{}, ring: make([]string, readersMax)}
}

// note takes the relays tag of a request that was admitted. Relays that every
// event is offered to anyway are none of it, nor what is no relay's address.
func (r *inboxRelays) note(view nostr.Event) {
	who := reader{buyer: view.PubKey}
	for _, t := range view.Tags {
		if len(t) >= 2 && t[0] == "relays" {
			who.urls = further(who.urls, r.own(), t[1:])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, r.ring[r.next])
	r.jobs[view.ID], r.ring[r.next] = who, view.ID
	r.next = (r.next + 1) % len(r.ring)
}

// buyer is whose request it is, if it is one that was admitted.
func (r *inboxRelays) buyer(requestID string) (key string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	who, ok := r.jobs[requestID]
	return who.buyer, ok
}

// of are the relays of a request's buyer. It may ask our relays for its list.
func (r *inboxRelays) of(ctx context.Context, requestID string) []string {
	r.mu.Lock()
	who, ok := r.jobs[requestID]
	r.mu.Unlock()
	if !ok || len(who.urls) >= inboxMax {
		return who.urls
	}
	return further(slices.Clone(who.urls), r.own(), r.lists.of(ctx, who.buyer))
}

// further adds to urls, up to the bound, what is in neither list yet.
func further(urls, own, more []string) []string {
	for _, url := range more {
		known := slices.ContainsFunc(slices.Concat(own, urls), func(o string) bool {
			return strings.TrimRight(o, "/") == strings.TrimRight(url, "/")
		})
		if !known && len(urls) < inboxMax && len(url) <= 200 && nostr.IsValidRelayURL(url) {
			urls = append(urls, url)
		}
	}
	return urls
}

const (
	// readListAge is how long a buyer's relay list, or that it has none, counts.
	readListAge = 10 * time.Minute
	// readListWait bounds the question for one.
	readListWait = 3 * time.Second
	// readListMax bounds the lists remembered.
	readListMax = 1024
	// readListTags bounds how much of a list is read.
	readListTags = 64
)

// readLists remembers the relay lists (NIP-65, kind 10002) of buyers: where
// each of them reads. They are asked of our own relays only.
type readLists struct {
	query func(context.Context, nostr.Filter) ([]nostr.Event, error)

	mu    sync.Mutex
	lists map[string]*readList // by key
	ring  []string
	next  int
}

type readList struct {
	mu   sync.Mutex // held while it is asked for, so that it is asked for once
	at   time.Time
	urls []string
}

func newReadLists(query func(context.Context, nostr.Filter) ([]nostr.Event, error)) *readLists {
	return &readLists{query: query, lists: map[string]*readList{}, ring: make([]string, readListMax)}
}

// of are the relays that key says it reads, in its order.
func (r *readLists) of(ctx context.Context, key string) []string {
	l := r.entry(key)
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.at.IsZero() && time.Since(l.at) < readListAge {
		return l.urls
	}
	ctx, cancel := context.WithTimeout(ctx, readListWait)
	defer cancel()

	// No answer counts as none: the job's events are on our own relays anyway.
	found, _ := r.query(ctx, nostr.Filter{Kinds: []int{kinds.RelayList}, Authors: []string{key}, Limit: 1})
	l.at, l.urls = time.Now(), nil

	for _, ev := range found {
		if ev.Kind == kinds.RelayList && ev.PubKey == key {
			l.urls = readRelays(ev.Tags)
			break // the newest comes first
		}
	}

	return l.urls
}

func (r *readLists) entry(key string) *readList {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lists[key]; l != nil {
		return l
	}
	delete(r.lists, r.ring[r.next])
	l := &readList{}
	r.lists[key], r.ring[r.next] = l, key
	r.next = (r.next + 1) % len(r.ring)
	return l
}

// readRelays are the relays of a list that are not for writing alone.
func readRelays(tags nostr.Tags) (urls []string) {
	for _, t := range tags[:min(len(tags), readListTags)] {
		if len(t) >= 2 && t[0] == "r" && (len(t) == 2 || t[2] == "" || t[2] == "read") {
			urls = append(urls, t[1])
		}
	}
	return urls
}

// NoteReader remembers where the buyer of a request that was admitted reads.
func (p *Publisher) NoteReader(view nostr.Event) { p.inbox.note(view) }
