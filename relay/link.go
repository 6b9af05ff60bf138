package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/lightwork-market/lightwork/internal/backoff"
)

// stableAfter is how long a connection must last before backoff starts anew.
const stableAfter = 30 * time.Second

// link keeps one relay connected. Its run goroutine is owned by Pool.Serve.
type link struct {
	pool *Pool
	url  string
	log  *slog.Logger
	gate *gate // outlives connections: a relay's rate limit usually does too

	connects, received, rejected, published atomic.Int64

	silent atomic.Bool // it let a whole query time pass, and has not answered since

	mu      sync.Mutex
	state   State
	since   time.Time
	failure error         // of the last attempt or connection
	notice  string        // already cleaned
	session *session      // set in StateConnected
	changed chan struct{} // closed and replaced at every change of state
}

func newLink(p *Pool, url string) *link {
	return &link{
		pool:    p,
		url:     url,
		log:     p.cfg.Log.With("relay", url),
		gate:    newGate(),
		state:   StateConnecting,
		since:   time.Now(),
		changed: make(chan struct{}),
	}
}

func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()

	st := Status{
		URL:       l.url,
		State:     l.state,
		Since:     l.since.UTC(),
		Notice:    l.notice,
		Connects:  l.connects.Load(),
		Received:  l.received.Load(),
		Rejected:  l.rejected.Load(),
		Published: l.published.Load(),
	}
	if l.failure != nil {
		st.Error = l.failure.Error()
	}
	return st
}

func (l *link) enter(state State, s *session, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failure != nil {
		l.failure = failure
	}
	l.state, l.session, l.since = state, s, time.Now()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) setNotice(text string) {
	l.mu.Lock()
	l.notice = text
	l.mu.Unlock()
	l.log.Debug("relay says", "text", text)
}

// await returns the connection. It waits for an attempt that is under way, but not
// for the next one after a failure, so that a dead relay delays no caller.
func (l *link) await(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		state, s, failure, changed := l.state, l.session, l.failure, l.changed
		l.mu.Unlock()

		switch state {
		case StateConnected:
			return s, nil
		case StateWaiting:
			return nil, fmt.Errorf("%w: %w", ErrNotConnected, failure)
		case StateClosed:
			return nil, ErrClosed
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ErrTimeout
		}
	}
}

// run connects, and connects again, until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.enter(StateClosed, nil, nil)

	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= stableAfter {
			attempt = 0
		}

		delay := l.pool.cfg.backoff(attempt)
		switch {
		case errors.Is(err, ErrMisbehaved):
			delay = l.pool.cfg.MaxBackoff
			l.enter(StateWaiting, nil, err)
		case attempt == 0 && errors.Is(err, ErrDisconnected):
			l.enter(StateConnecting, nil, err) // callers do wait for the first retry
		default:
			l.enter(StateWaiting, nil, err)
		}

		l.log.Debug("relay lost", "error", err, "retry_ms", delay.Milliseconds())
		if backoff.Sleep(ctx, delay) != nil {
			return
		}
		l.enter(StateConnecting, nil, nil)
	}
}

// backoff doubles from MinBackoff to MaxBackoff. Half of it is random, so that the
// clients of a restarted relay do not all return at once.
func (c Config) backoff(attempt int) time.Duration {
	d := c.MaxBackoff
	if attempt < 30 {
		d = min(d, c.MinBackoff<<attempt)
	}
	return d/2 + rand.N(d/2+1)
}

// connect makes one connection and serves it to its end. The error wraps
// ErrDisconnected if there was a connection.
func (l *link) connect(ctx context.Context) error {
	dctx, cancel := context.WithTimeout(ctx, l.pool.cfg.DialTimeout)
	defer cancel()

	ws, _, err := websocket.Dial(dctx, l.url, &websocket.DialOptions{
		HTTPClient: l.pool.http,
		HTTPHeader: http.Header{"User-Agent": {"lightwork"}},
	})
	if err != nil {
		return dialError(err)
	}
	ws.SetReadLimit(hardMessageBytes)
	l.connects.Add(1)
	sctx, end := context.WithCancelCause(ctx)
	s := newSession(l, ws, sctx.Done(), end)
	return fmt.Errorf("%w: %w", ErrDisconnected, s.serve(sctx))
}

// dialError reduces a dial error to the network's own reason. The callers add the
// relay's address themselves.
func dialError(err error) error {
	var call *url.Error
	if errors.As(err, &call) {
		return call.Err
	}
	return fmt.Errorf("connect: %w", err)
}

// attach starts every subscription on a new connection. A subscription made at the
// same time is not missed: it is added to the pool before it looks for connections,
// and the connection is published here before the pool is read.
func (l *link) attach(s *session) {
	l.enter(StateConnected, s, nil)
	for _, sub := range l.current() {
		sub.attach(l, s)
	}
}

func (l *link) detach(s *session) {
	for _, sub := range l.current() {
		sub.detach(l, s)
	}
}

func (l *link) current() []*Subscription {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.pool.subscriptions()
}
