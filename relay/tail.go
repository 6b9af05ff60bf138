package relay

import (
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// startGrace is how old an event may be that a relay sends before EOSE on top
// of the limit, and still count as live; in seconds.
const startGrace = 10

// tail is what a subscription knows of one relay. Subscription.mu guards it.
//
// It holds a floor: every event that the relay broadcast with an earlier time
// has been passed on. While a connection is caught up the floor moves along
// with it; otherwise the next request starts at the floor.
type tail struct {
	sub     *Subscription
	link    *link
	session *session // nil between connections

	resumed bool            // floor counts: the relay once sent all it had
	floor   nostr.Timestamp // see above
	lagging bool            // the queue was full: events at or after floor are missing
	current bool            // this connection has sent all it had

	liveID string // the REQ that stays
	page   *page  // older stored events being fetched, or nil
	pageID string

	refusals int
	retry    *time.Timer // after CLOSED
}

// attach sends the REQ for a new connection.
func (t *tail) attach(on *session) {
	t.stopRetry()
	t.session, t.current, t.page = on, false, nil
	t.lagging = false // the floor covers what is missing
	t.open()
}

func (t *tail) open() {
	first := newPage(t.startFilters())
	asked := now()
	budget := make([]int, len(t.sub.filters))
	for i, f := range first.filters {
		budget[i] = f.Limit
	}
	eose := false
	t.liveID = t.session.request(&feed{
		filters: first.filters,
		known: func(ev *nostr.Event) bool {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			if eose {
				return t.sub.seen.has(ev.ID)
			}
			first.count(ev, t.sub.seen.has(ev.ID))
			excess := !within(first.filters, budget, ev) && ev.CreatedAt < asked-startGrace
			return excess || t.sub.seen.has(ev.ID)
		},
		event: func(ev *nostr.Event) { t.event(ev, nil) },
		eose: func() {
			t.sub.mu.Lock()
			late := eose
			eose = true
			if !late {
				t.eose(first)
			}
			t.sub.mu.Unlock()
			if f := t.sub.opt.OnEOSE; f != nil && !late {
				f(t.link.url)
			}
		},
		closed: t.refused,
	})
}

// within takes the event from the budget of a filter that it matches. Filters
// without a limit have no budget.
func within(filters nostr.Filters, budget []int, ev *nostr.Event) bool {
	for i, f := range filters {
		if !f.Matches(ev) {
			continue
		}
		if f.Limit == 0 && !f.LimitZero {
			return true
		}
		if budget[i] > 0 {
			budget[i]--
			return true
		}
	}
	return false
}

// startFilters are the filters for a new connection.
func (t *tail) startFilters() nostr.Filters {
	cursor := nostr.Timestamp(0)
	if t.sub.opt.Since != nil {
		cursor = t.sub.opt.Since()
	}
	list := make(nostr.Filters, len(t.sub.filters))
	for i := range t.sub.filters {
		list[i] = t.startFilter(t.sub.filters[i].Clone(), cursor)
	}
	return list
}

func (t *tail) startFilter(f nostr.Filter, cursor nostr.Timestamp) nostr.Filter {
	if !t.resumed {
		switch {
		case f.LimitZero && now() > t.sub.started+startGrace:
			return from(f, t.sub.started) // the relay came late: "from now on" began earlier
		case cursor > 0:
			f.Since = &cursor
		}
		return f
	}
	since := t.floor
	if cursor > 0 {
		since = min(since, cursor)
	}
	if f.LimitZero {
		since = max(since, t.sub.started)
	}
	return from(f, since)
}

// from asks for everything since a time, but nothing that the filter's own
// since left out.
func from(f nostr.Filter, since nostr.Timestamp) nostr.Filter {
	if f.Since == nil || *f.Since < since {
		f.Since = &since
	}
	f.Limit, f.LimitZero = 0, false
	return f
}

// event takes a verified event; p is the page that it came with, if any.
func (t *tail) event(ev *nostr.Event, p *page) {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	t.sub.accepted()
	if p != nil && t.page != p {
		return // given up
	}
	if t.sub.put(t, ev) {
		return
	}
	// The reader is too slow. What is dropped is not lost: it is fetched from
	// the relay when the queue is empty.
	if !t.lagging && t.current {
		t.floor, t.resumed = ev.CreatedAt, true
	}
	t.floor = min(t.floor, ev.CreatedAt)
	t.lagging, t.current = true, false
	t.dropPage()
}

// eose is called when the live REQ has brought its stored events.
func (t *tail) eose(first *page) {
	t.sub.accepted()
	if t.lagging || t.page != nil {
		return
	}
	t.continuePage(first)
}

// refetch asks again for what was dropped.
func (t *tail) refetch() {
	if !t.lagging || t.session == nil {
		return
	}
	t.lagging = false
	filters := t.startFilters()
	if !t.resumed {
		// It overflowed within the first answer: that answer again, whole.
		for i := range filters {
			if filters[i].LimitZero {
				filters[i] = from(filters[i], t.sub.started)
			}
		}
	}
	t.fetch(newPage(filters))
}

// continuePage goes on behind p, or is done. A relay sends no more than its
// own limit at once and does not say so: only an empty answer is the end.
func (t *tail) continuePage(p *page) {
	next := p.next()
	if next == nil {
		t.page = nil
		t.current, t.resumed = true, true
		t.refusals = 0 // not sooner: a relay may answer the first REQ and none of the pages
		return
	}
	t.fetch(next)
}

// fetch sends the REQ for a page.
func (t *tail) fetch(p *page) {
	t.page = p
	var id string
	end := func() {
		t.session.forget(id)
		t.continuePage(p)
	}
	id = t.session.request(&feed{
		filters: p.filters,
		known: func(ev *nostr.Event) bool {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			have := t.sub.seen.has(ev.ID)
			p.count(ev, have)
			return have || t.page != p
		},
		event: func(ev *nostr.Event) { t.event(ev, p) },
		eose: func() {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			if t.page == p {
				end()
			}
		},
		closed: func(text string) {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			if t.page == p {
				t.page = nil
				t.later(text)
			}
		},
	})
	t.pageID = id
}

func (t *tail) dropPage() {
	if t.page != nil {
		t.page = nil
		t.session.forget(t.pageID)
	}
}

// rest moves the floor to where the next connection has to start: alive is
// when the relay was last known to send what it gets.
func (t *tail) rest(alive nostr.Timestamp) {
	start := alive - nostr.Timestamp(t.sub.pool.cfg.Overlap/time.Second)
	switch {
	case t.current:
		t.floor = start
	case t.resumed:
		t.floor = min(t.floor, start)
	}
	t.current = false
}

// detach notes the end of the connection.
func (t *tail) detach() {
	t.stopRetry()
	t.rest(nostr.Timestamp(t.session.heard.Load()))
	t.session, t.page, t.liveID = nil, nil, ""
}

// stop ends the REQs of the subscription.
func (t *tail) stop() {
	t.stopRetry()
	if t.session == nil {
		return
	}
	t.dropPage()
	if t.liveID != "" {
		t.session.forget(t.liveID)
	}
}
