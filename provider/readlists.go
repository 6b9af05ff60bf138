package provider

import (
	"context"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
)

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
