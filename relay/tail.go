package relay

import (
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// startGrace is the age in seconds up to which an event that a relay sends before
// EOSE, beyond the filter's limit, still counts as live.
const startGrace = 10

// tail is the state of a subscription at one relay. Subscription.mu guards it.
//
// It keeps a floor: every event of the relay with an earlier time has been delivered.
// While a connection is caught up, the floor moves with it; after a loss, the next
// request starts at the floor.
type tail struct {
	sub     *Subscription
	link    *link
	session *session // nil between connections

	resumed bool            // floor is valid: the relay has sent all its events once
	floor   nostr.Timestamp // see above
	lagging bool            // the queue was full: events at or after floor are missing
	current bool            // the relay has sent all its events on this connection

	liveID string // the REQ that stays open
	page   *page  // older stored events being fetched, or nil
	pageID string

	refusals int
	retry    *time.Timer // after CLOSED
}

// attach sends the REQ for a new connection.
func (t *tail) attach(on *session) {
	t.stopRetry()
	t.session, t.current, t.page = on, false, nil
	t.lagging = false // the request starts at the floor, so it covers the missing events
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
		closed: t.onRefusal,
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
			return from(f, t.sub.started) // the relay connected late: "from now on" began earlier
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

// from makes the filter ask for everything since a time, but not for events before
// the filter's own since.
func from(f nostr.Filter, since nostr.Timestamp) nostr.Filter {
	if f.Since == nil || *f.Since < since {
		f.Since = &since
	}
	f.Limit, f.LimitZero = 0, false
	return f
}

// event handles a verified event; p is its page, nil for a live event.
func (t *tail) event(ev *nostr.Event, p *page) {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()

	t.sub.markReady()
	if p != nil && t.page != p {
		return // the page was dropped
	}
	if t.sub.put(t, ev) {
		return
	}

	// The reader is too slow. The event is dropped now and fetched again when the
	// queue is empty.
	if !t.lagging && t.current {
		t.floor, t.resumed = ev.CreatedAt, true
	}
	t.floor = min(t.floor, ev.CreatedAt)
	t.lagging, t.current = true, false
	t.dropPage()
}

// eose is called when the relay has sent the stored events of the live REQ.
func (t *tail) eose(first *page) {
	t.sub.markReady()
	if t.lagging || t.page != nil {
		return
	}
	t.continuePage(first)
}

// refetch requests the dropped events again.
func (t *tail) refetch() {
	if !t.lagging || t.session == nil {
		return
	}
	t.lagging = false
	filters := t.startFilters()
	if !t.resumed {
		// The first answer alone filled the queue, so it is requested again in full.
		for i := range filters {
			if filters[i].LimitZero {
				filters[i] = from(filters[i], t.sub.started)
			}
		}
	}

	t.fetch(newPage(filters))
}

// continuePage fetches the page after p, or ends. A relay cuts answers at its own
// limit without saying so; only an empty answer shows that there is no more.
func (t *tail) continuePage(p *page) {
	next := p.next()
	if next == nil {
		t.page = nil
		t.current, t.resumed = true, true
		t.refusals = 0 // not earlier: a relay may answer the first REQ and refuse every page
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
				t.scheduleRetry(text)
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

// resetFloor sets the floor to where the next connection has to start. alive is the
// last time at which the relay was known to deliver events.
func (t *tail) resetFloor(alive nostr.Timestamp) {
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
	t.resetFloor(nostr.Timestamp(t.session.lastRead.Load()))
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

// onRefusal is called when the relay closes the live REQ.
func (t *tail) onRefusal(text string) {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	if t.sub.closed || t.session == nil {
		return
	}
	t.resetFloor(now())
	t.dropPage()
	t.liveID = ""
	t.scheduleRetry(text)
}

// scheduleRetry asks the relay again later: soon if its reason is temporary, after
// authentication if that is what it requires.
func (t *tail) scheduleRetry(text string) {
	if on := t.session; wantsAuth(text) && on.canProve() {
		on.afterAuth(func(err error) {
			t.sub.mu.Lock()
			defer t.sub.mu.Unlock()
			switch {
			case t.sub.closed || t.session != on:
			case err != nil:
				t.restartAfter(t.sub.pool.cfg.MaxBackoff)
			default:
				t.restart(on)
			}
		})
		return
	}

	delay := t.sub.pool.cfg.MaxBackoff
	prefix, _, _ := strings.Cut(text, ":")
	switch prefix {
	case "auth-required", "restricted", "blocked", "unsupported", "invalid", "pow":
	default:
		delay = t.sub.pool.cfg.backoff(t.refusals)
		t.refusals++
	}

	t.restartAfter(delay)
}

// restartAfter asks again on the same connection after a delay; t.sub.mu is held.
func (t *tail) restartAfter(delay time.Duration) {
	on := t.session
	t.stopRetry()
	t.retry = time.AfterFunc(delay, func() {
		t.sub.mu.Lock()
		defer t.sub.mu.Unlock()
		if !t.sub.closed && t.session == on {
			t.restart(on)
		}
	})
}

// restart sends a new REQ in place of the old one; t.sub.mu is held.
func (t *tail) restart(on *session) {
	if t.liveID != "" {
		on.forget(t.liveID)
	}
	t.attach(on)
}

func (t *tail) stopRetry() {
	if t.retry != nil {
		t.retry.Stop()
		t.retry = nil
	}
}
