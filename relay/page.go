package relay

import (
	"slices"

	"github.com/nbd-wtf/go-nostr"
)

// maxPages bounds how long a relay can keep a subscription busy with pages.
const maxPages = 2000

// page is one answer with stored events, newest first, and what of it decides
// whether there are older ones: per filter, since a relay cuts each filter by
// itself.
type page struct {
	filters nostr.Filters
	stats   []pageStats
	depth   int
}

type pageStats struct {
	events int
	fresh  int // of these, not seen before
	oldest nostr.Timestamp
}

func newPage(filters nostr.Filters) *page {
	return &page{filters: filters, stats: make([]pageStats, len(filters))}
}

// count notes an event of the answer.
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

// next is the page behind p, nil if there is none. Only filters that ask for
// everything since a time have one.
func (p *page) next() *page {
	var filters nostr.Filters
	for i, st := range p.stats {
		f := p.filters[i]
		if f.Since == nil || f.Limit > 0 || f.LimitZero || st.events == 0 {
			continue
		}
		// The cut can lie within a second, so the last one is asked for again;
		// when that brings nothing new, what is before it.
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
