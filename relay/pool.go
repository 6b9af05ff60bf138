// Package relay is the client side of Nostr: a pool of relay connections that
// publish, subscribe and query, the node's signing key, and Blossom blobs.
//
// Relays are not trusted and not waited for. Every event is checked again (size, id,
// signature, filter), a dead or stuck relay delays nobody else, and a
// subscription goes on over reconnects: it asks again for a stretch that
// overlaps what it had, and passes on every event once.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

var (
	// ErrConfig is wrapped by NewPool for a Config that cannot work.
	ErrConfig = errors.New("relay pool configuration")
	// ErrClosed is returned once Serve has ended.
	ErrClosed = errors.New("relay pool is closed")
	// ErrNotConnected says that the last attempt to connect went wrong and
	// the next one is not due yet. It wraps the reason.
	ErrNotConnected = errors.New("relay is not connected")
	// ErrDisconnected says that the connection ended before the answer came.
	ErrDisconnected = errors.New("relay disconnected")
	// ErrTimeout says that a relay did not answer in time.
	ErrTimeout = errors.New("relay did not answer")
	// ErrNotAwaited marks the relays whose answer PublishQuorum did not need.
	ErrNotAwaited = errors.New("answer was not awaited")
	// ErrTooLarge is returned for an event above Config.MaxEventBytes.
	ErrTooLarge = errors.New("event is too large")
	// ErrRefused is wrapped with the text of a relay that closed a query.
	ErrRefused = errors.New("relay refused")
	// ErrMisbehaved says that a relay sent forged or unasked events.
	ErrMisbehaved = errors.New("relay misbehaves")
)

// Config says which relays a pool uses and how. URLs alone is required; the
// other zero values stand for the defaults named beside them.
type Config struct {
	URLs []string     // ws:// or wss://
	Log  *slog.Logger // nil discards
	// Signer proves its key to relays that refuse to serve without (NIP-42); nil
	// proves nothing.
	Signer Signer

	MaxEventBytes   int // largest event accepted or published; 64 KiB
	MaxMessageBytes int // largest message parsed; longer ones are skipped; 256 KiB

	DialTimeout    time.Duration // 10 s
	WriteTimeout   time.Duration // for one message; 10 s
	PingInterval   time.Duration // 30 s; a pong may take WriteTimeout
	PublishTimeout time.Duration // for the OKs of one Publish; 10 s
	QueryTimeout   time.Duration // 10 s

	// MinBackoff and MaxBackoff bound the wait between attempts to connect;
	// 500 ms and 1 min.
	MinBackoff, MaxBackoff time.Duration

	// Overlap is how far before the loss of a connection a subscription asks
	// again: it must cover clock differences and late publications; 10 min.
	Overlap time.Duration
	// QueueEvents is how many events wait for the reader of a subscription.
	// What comes on top is fetched again later; 1024.
	QueueEvents int
}

// hardMessageBytes ends a connection: so much is not even skipped.
const hardMessageBytes = 16 << 20

func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	orInt(&c.MaxEventBytes, 64<<10)
	orInt(&c.MaxMessageBytes, 256<<10)
	orTime(&c.DialTimeout, 10*time.Second)
	orTime(&c.WriteTimeout, 10*time.Second)
	orTime(&c.PingInterval, 30*time.Second)
	orTime(&c.PublishTimeout, 10*time.Second)
	orTime(&c.QueryTimeout, 10*time.Second)
	orTime(&c.MinBackoff, 500*time.Millisecond)
	orTime(&c.MaxBackoff, time.Minute)
	orTime(&c.Overlap, 10*time.Minute)
	orInt(&c.QueueEvents, 1024)
	return c
}

// Pool keeps one connection to each relay. Its methods may be called from many
// goroutines, also before Serve runs: they then wait for it.
type Pool struct {
	cfg   Config
	http  *http.Client
	links []*link

	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	closed bool
}

// NewPool checks cfg. It connects to nobody; Serve does.
func NewPool(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	p := &Pool{
		cfg:  cfg,
		subs: map[*Subscription]struct{}{},
		// A redirect would lead away from the relay that the owner chose.
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect},
	}
	var known []string
	for _, raw := range cfg.URLs {
		u, err := relayURL(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if !slices.Contains(known, u) {
			known = append(known, u)
			p.links = append(p.links, newLink(p, u))
		}
	}
	if len(p.links) == 0 {
		return nil, fmt.Errorf("%w: no relay URLs", ErrConfig)
	}
	return p, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// relayURL checks a relay's address and brings it into one form.
func relayURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("relay URL %q does not parse", raw)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss":
		return "", fmt.Errorf("relay URL %q is not ws:// or wss://", raw)
	case u.Hostname() == "":
		return "", fmt.Errorf("relay URL %q has no host", raw)
	case u.User != nil:
		return "", errors.New("relay URL with a user name or password")
	}
	u.Fragment = ""
	return strings.TrimRight(u.String(), "/"), nil
}

// Serve keeps the relays connected until ctx ends. Then it ends every
// subscription and returns nil. It is called once.
func (p *Pool) Serve(ctx context.Context) error {
	var links sync.WaitGroup
	for _, l := range p.links {
		links.Go(func() { l.run(ctx) })
	}
	links.Wait()
	p.mu.Lock()
	p.closed = true
	subs := p.subscriptions()
	p.mu.Unlock()
	for _, s := range subs {
		s.Close()
	}
	p.http.CloseIdleConnections()
	return nil
}

// subscriptions lists them; p.mu is held.
func (p *Pool) subscriptions() []*Subscription {
	list := make([]*Subscription, 0, len(p.subs))
	for s := range p.subs {
		list = append(list, s)
	}
	return list
}

// State is what a connection is doing.
type State string

// The states of a connection.
const (
	StateConnecting State = "connecting" // the first attempt, or the first after a loss
	StateConnected  State = "connected"
	StateWaiting    State = "waiting" // for the next attempt after a failure
	StateClosed     State = "closed"
)

// Status describes one connection. Counters run since NewPool.
type Status struct {
	URL       string    `json:"url"`
	State     State     `json:"state"`
	Since     time.Time `json:"since"`            // when State was entered
	Error     string    `json:"error,omitempty"`  // the last failure
	Notice    string    `json:"notice,omitempty"` // the relay's last NOTICE or CLOSED
	Connects  int64     `json:"connects"`         // connections made
	Received  int64     `json:"received"`         // events that passed every check
	Rejected  int64     `json:"rejected"`         // messages and events that did not
	Published int64     `json:"published"`        // events that the relay accepted
}

// Status describes every relay, in the order of Config.URLs.
func (p *Pool) Status() []Status {
	list := make([]Status, len(p.links))
	for i, l := range p.links {
		list[i] = l.status()
	}
	return list
}

// now is the present as events count it.
func now() nostr.Timestamp { return nostr.Timestamp(time.Now().Unix()) }
