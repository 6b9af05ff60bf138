package relay

import (
	"slices"

	"github.com/nbd-wtf/go-nostr"
)

// maxPages bounds the pages of one subscription: a relay could send new ones for
// ever.
const maxPages = 2000

// page is one answer with stored events, newest first. It counts events for each
// filter, because a relay applies its limit to each filter alone; the counts decide
// whether to ask for older events.
type page struct {
	filters nostr.Filters
	stats   []pageStats
	depth   int
}

type pageStats struct {
	events int
	fresh  int // number of these not seen before
	oldest nostr.Timestamp
}

func newPage(filters nostr.Filters) *page {
	return &page{filters: filters, stats: make([]pageStats, len(filters))}
}

// count adds an event of the answer.
func (p *page) count(ev *nostr.Event, known bool) {
	for i := range p.filters {
		if !p.filters[i].Matches(ev) {
			continue
		}
		st := &p.stats[i]
		if st.events == 0 || ev.CreatedAt < st.oldest {
			st.oldest = ev.CreatedAt
		}
		st.events++
		if !known {
			st.fresh++
		}
	}
}

// next is the page with the events older than those of p, nil if there is none. Only
// filters that ask for everything since a time are continued.
func (p *page) next() *page {
	var filters nostr.Filters
	for i, st := range p.stats {
		f := p.filters[i]
		if f.Since == nil || f.Limit > 0 || f.LimitZero || st.events == 0 {
			continue
		}

		// The relay may have stopped in the middle of a second, so the oldest second
		// is requested again. Once that brings nothing new, the next page starts
		// before it.
		until := st.oldest
		if st.fresh == 0 {
			until--
		}
		if until < *f.Since {
			continue
		}
		f.Until = &until
		filters = append(filters, f)
	}

	if len(filters) == 0 || p.depth >= maxPages {
		return nil
	}
	next := newPage(slices.Clip(filters))
	next.depth = p.depth + 1
	return next
}
