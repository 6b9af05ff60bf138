package provider

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

const (
	// elsewhereMax is how many relays of its own a buyer may have answered on.
	elsewhereMax = 3
	// elsewhereJobs bounds the jobs of which that is remembered.
	elsewhereJobs = 4096
)

// elsewhere knows on which further relays buyers want to read: those that the
// request names, then those of the buyer's relay list (NIP-65).
type elsewhere struct {
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

func newElsewhere(m Market) *elsewhere {
	return &elsewhere{own: m.Relays, lists: newReadLists(m.Query), jobs: map[string]reader{}, ring: make([]string, elsewhereJobs)}
}

// note takes the relays tag of a request that was admitted. Relays that every
// event is offered to anyway are none of it, nor what is no relay's address.
func (e *elsewhere) note(view nostrEvent) {
	r := reader{buyer: view.PubKey}
	for _, t := range view.Tags {
		if len(t) >= 2 && t[0] == "relays" {
			r.urls = further(r.urls, e.own(), t[1:])
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, e.ring[e.next])
	e.jobs[view.ID], e.ring[e.next] = r, view.ID
	e.next = (e.next + 1) % len(e.ring)
}

// buyer is whose request it is, if it is one that was admitted.
func (e *elsewhere) buyer(requestID string) (key string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, ok := e.jobs[requestID]
	return r.buyer, ok
}

// of are the relays of a request's buyer. It may ask our relays for its list.
func (e *elsewhere) of(ctx context.Context, requestID string) []string {
	e.mu.Lock()
	r, ok := e.jobs[requestID]
	e.mu.Unlock()
	if !ok || len(r.urls) >= elsewhereMax {
		return r.urls
	}
	return further(slices.Clone(r.urls), e.own(), e.lists.of(ctx, r.buyer))
}

// further adds to urls, up to the bound, what is in neither list yet.
func further(urls, own, more []string) []string {
	for _, url := range more {
		known := slices.ContainsFunc(slices.Concat(own, urls), func(o string) bool {
			return strings.TrimRight(o, "/") == strings.TrimRight(url, "/")
		})
		if !known && len(urls) < elsewhereMax && len(url) <= 200 && nostr.IsValidRelayURL(url) {
			urls = append(urls, url)
		}
	}
	return urls
}
