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

	"github.com/lightwork-market/lightwork/internal/backoff"
)

// maxQueryEvents bounds what Query collects when the filter has no limit.
const maxQueryEvents = 5000

// Query returns the stored events that match, newest first, each once, at most
// filter.Limit of them. It waits for every connected relay, at most
// [Config].QueryTimeout. A relay that timed out before gets only a second more once
// another relay has answered. Query returns an error only if no relay answered
// completely; the events received until then are returned with it.
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
		all.Go(func() { errs[i] = q.askUnlessSilent(ctx, l) })
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

	answered atomic.Bool   // a relay has answered completely
	first    chan struct{} // closed then

	mu     sync.Mutex
	seen   map[string]bool
	events []nostr.Event
}

// errNeedsAuth says that the relay may answer once it knows the key.
var errNeedsAuth = fmt.Errorf("%w and was not told in time", ErrAuth)

// errRateLimited says that the relay may answer later.
var errRateLimited = fmt.Errorf("%w for now", ErrRefused)

// busyTries is how often a rate-limiting relay is asked once another has answered.
const busyTries = 3

// silentPatience is how long a query still waits for a silent relay after another has
// answered. It is long enough for one that works again.
const silentPatience = time.Second

// askUnlessSilent asks a relay. One that lets the whole query time pass is marked as
// silent, so that it does not delay every later query too; one that is only rate
// limiting is not marked.
func (q *query) askUnlessSilent(ctx context.Context, l *link) error {
	if !l.silent.Load() {
		err := q.askWithRetries(ctx, l)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, errRateLimited) {
			l.silent.Store(true)
		}
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var cutoff sync.WaitGroup
	cutoff.Go(func() {
		select {
		case <-q.first:
			_ = backoff.Sleep(ctx, silentPatience)
			cancel()
		case <-ctx.Done():
		}
	})
	err := q.askWithRetries(ctx, l)
	cancel()
	cutoff.Wait()
	return err
}

// askWithRetries asks a relay again, after a pause, as long as it is rate limiting.
// After busyTries it gives up if another relay has answered. If the time ends during
// a retry, the error is the earlier refusal.
func (q *query) askWithRetries(ctx context.Context, l *link) error {
	var refused error
	for n, pause := 1, shortPause; ; n, pause = n+1, min(2*pause, longPause) {
		err := q.askAuthenticated(ctx, l)
		if err == nil && q.answered.CompareAndSwap(false, true) {
			close(q.first)
		}
		if err != nil && refused != nil && ctx.Err() != nil {
			return refused
		}
		enough := n >= busyTries && q.answered.Load()
		if !errors.Is(err, errRateLimited) || enough || backoff.Sleep(ctx, pause/2+rand.N(pause/2+1)) != nil {
			return err
		}
		refused = err
	}
}

// askAuthenticated asks a relay, and once more after authentication if it requires
// that.
func (q *query) askAuthenticated(ctx context.Context, l *link) error {
	err := q.ask(ctx, l)
	if !errors.Is(err, errNeedsAuth) {
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
			// Events beyond the limit and after EOSE are dropped.
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
				finish(errNeedsAuth)
				return
			}
			reason := ErrRefused
			if isRateLimited(text) {
				reason = errRateLimited
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
