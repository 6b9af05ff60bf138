package provider

import (
	"slices"
	"strings"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

const (
	// elsewhereMax is how many relays of its own a request may have answered on.
	elsewhereMax = 3
	// elsewhereJobs bounds the jobs of which that is remembered.
	elsewhereJobs = 4096
)

// elsewhere remembers on which further relays buyers want to read.
type elsewhere struct {
	mu   sync.Mutex
	urls map[string][]string // by request id
	ring []string
	next int
}

func newElsewhere() *elsewhere {
	return &elsewhere{urls: map[string][]string{}, ring: make([]string, elsewhereJobs)}
}

// note takes the relays tag of a request. Relays that every event is offered to
// anyway are none of it, nor what is no relay's address.
func (e *elsewhere) note(view nostrEvent, own []string) {
	var urls []string
	for _, t := range view.Tags {
		if len(t) < 2 || t[0] != "relays" {
			continue
		}
		for _, url := range t[1:] {
			known := slices.ContainsFunc(slices.Concat(own, urls), func(o string) bool {
				return strings.TrimRight(o, "/") == strings.TrimRight(url, "/")
			})
			if !known && len(urls) < elsewhereMax && len(url) <= 200 && nostr.IsValidRelayURL(url) {
				urls = append(urls, url)
			}
		}
	}
	if len(urls) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.urls, e.ring[e.next])
	e.urls[view.ID], e.ring[e.next] = urls, view.ID
	e.next = (e.next + 1) % len(e.ring)
}

func (e *elsewhere) of(requestID string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.urls[requestID]
}
