package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// maxQueryEvents bounds what Query collects when the filter has no limit.
const maxQueryEvents = 5000

// Query returns the stored events that match, newest first, each once, at most
// filter.Limit of them. It waits for every connected relay, no longer than
// Config.QueryTimeout, and for one that let the time of an earlier question pass no
// longer than mutePatience once another has answered. It returns an error only if no
// relay answered to the end; what came before is returned with it.
func (p *Pool) Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.QueryTimeout)
	defer cancel()
	q := &query{filter: filter, limit: maxQueryEvents, first: make(chan struct{}), seen: map[string]bool{}}
	if filter.Limit > 0 {
		q.limit = min(q.limit, filter.Limit)
	}
	errs := make([]error, len(p.links))
	var all sync.WaitGroup
	for i, l := range p.links {
		all.Go(func() { errs[i] = q.askPatiently(ctx, l) })
	}
	all.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	slices.SortFunc(q.events, nostr.CompareEventReverse)
	q.events = slices.Clip(q.events[:min(len(q.events), q.limit)])
	if slices.Contains(errs, nil) {
		return q.events, nil
	}
	return q.events, fmt.Errorf("query: %w", errors.Join(errs...))
}

// query collects what the relays send.
type query struct {
	filter nostr.Filter
	limit  int

	answered atomic.Bool   // some relay has, to the end
	first    chan struct{} // closed then

	mu     sync.Mutex
	seen   map[string]bool
	events []nostr.Event
}

// errProve: the relay may answer once it knows the key.
var errProve = fmt.Errorf("%w and was not told in time", ErrAuth)

// errTooFast: the relay may answer later.
var errTooFast = fmt.Errorf("%w for now", ErrRefused)

// crowdedTries is how often a relay that wants to be asked later is asked although
// another one has answered.
const crowdedTries = 3

// mutePatience is how long a relay is waited for that has not answered lately, once
// another one has: enough for one that is back.
const mutePatience = time.Second

// askPatiently asks a relay, and remembers of one that lets all the time pass that it
// is mute: it would take as long from every question. One that only wants it to be
// asked later is not.
func (q *query) askPatiently(ctx context.Context, l *link) error {
	if !l.mute.Load() {
		err := q.askAgain(ctx, l)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, errTooFast) {
			l.mute.Store(true)
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var hurry sync.WaitGroup
	hurry.Go(func() {
		select {
		case <-q.first:
			sleep(ctx, mutePatience)
			cancel()
		case <-ctx.Done():
		}
	})
	err := q.askAgain(ctx, l)
	cancel()
	hurry.Wait()
	return err
}

// askAgain asks a relay, and again after a pause as long as that is all it wants.
// One that never wants more does not hold up what others have told. If the time
// is over before it has an answer, why it had none before is the error.
func (q *query) askAgain(ctx context.Context, l *link) error {
	var refused error
	for n, pause := 1, shortPause; ; n, pause = n+1, min(2*pause, longPause) {
		err := q.askTwice(ctx, l)
		if err == nil && q.answered.CompareAndSwap(false, true) {
			close(q.first)
		}
		if err != nil && refused != nil && ctx.Err() != nil {
			return refused
		}
		enough := n >= crowdedTries && q.answered.Load()
		if !errors.Is(err, errTooFast) || enough || !sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return err
		}
		refused = err
	}
}

// askTwice asks a relay, and again if it wants to know first who asks.
func (q *query) askTwice(ctx context.Context, l *link) error {
	err := q.ask(ctx, l)
	if !errors.Is(err, errProve) {
		return err
	}
	s, waiting := l.await(ctx)
	if waiting != nil {
		return err
	}
	if err := s.authenticate(ctx); err != nil {
		return fmt.Errorf("%s: %w", l.url, err)
	}
	return q.ask(ctx, l)
}

// ask queries one relay.
func (q *query) ask(ctx context.Context, l *link) error {
	s, err := l.await(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", l.url, err)
	}
	end := make(chan error, 1) // EOSE or CLOSED, whichever comes first
	finish := func(err error) {
		select {
		case end <- err:
		default:
		}
	}
	count, over := 0, false // q.mu guards them
	stop := func() {
		q.mu.Lock()
		over = true
		q.mu.Unlock()
	}
	id := s.request(&feed{
		filters: nostr.Filters{q.filter},
		known: func(ev *nostr.Event) bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			// One relay brings no more than was asked for, and nothing live.
			return over || count >= q.limit || q.seen[ev.ID]
		},
		event: func(ev *nostr.Event) {
			q.mu.Lock()
			defer q.mu.Unlock()
			count++
			if !over && !q.seen[ev.ID] {
				q.seen[ev.ID] = true
				q.events = append(q.events, *ev)
			}
		},
		eose: func() {
			stop()
			finish(nil)
		},
		closed: func(text string) {
			if wantsAuth(text) && s.canProve() {
				finish(errProve)
				return
			}
			reason := ErrRefused
			if tooFast(text) {
				reason = errTooFast
			}
			finish(fmt.Errorf("%w: %s", reason, text))
		},
	})
	defer s.forget(id)
	defer stop()
	select {
	case err = <-end:
	case <-s.done:
		err = ErrDisconnected
	case <-ctx.Done():
		err = ErrTimeout
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.url, err)
	}
	return nil
}
