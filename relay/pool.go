// Package relay is the client side of Nostr: connections to relays, the node's
// signing key, and blobs on Blossom servers.
//
// A [Pool] keeps one connection to each relay. [Pool.Publish] sends an event to all
// of them, [Pool.Query] reads stored events, and [Pool.Subscribe] delivers stored and
// new ones. The pool trusts no relay and waits for none: it checks the size, id,
// signature and filter of every event, and a dead relay delays no other. A
// [Subscription] survives reconnects: it requests an overlapping range again and
// delivers every event once.
//
// A [Key] is a [Signer] in memory, read by [LoadKey] or unlocked by [Unlock];
// package bunker has one whose key is on another machine. A [BlobClient] uploads and
// downloads blobs.
//
// Addresses that other people name can be traps. [Publisher], [BlobClient.Download]
// and [NewPublicClient] therefore refuse private networks and this machine with
// [ErrBlockedAddress].
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
	// ErrConfig is wrapped by the errors of [NewPool] for an unusable [Config].
	ErrConfig = errors.New("relay pool configuration")
	// ErrClosed is returned once [Pool.Serve] has ended.
	ErrClosed = errors.New("relay pool is closed")
	// ErrNotConnected says that the last attempt to connect failed and the next one is
	// not due yet. The reason is wrapped with it.
	ErrNotConnected = errors.New("relay is not connected")
	// ErrDisconnected says that the connection ended before the answer came.
	ErrDisconnected = errors.New("relay disconnected")
	// ErrTimeout says that a relay did not answer in time.
	ErrTimeout = errors.New("relay did not answer")
	// ErrNotAwaited marks the relays whose answer [Pool.PublishQuorum] did not need.
	ErrNotAwaited = errors.New("answer was not awaited")
	// ErrTooLarge is returned for an event above Config.MaxEventBytes.
	ErrTooLarge = errors.New("event is too large")
	// ErrRefused is wrapped with the text of a relay that closed a query.
	ErrRefused = errors.New("relay refused")
	// ErrMisbehaved says that a relay sent forged or unrequested events.
	ErrMisbehaved = errors.New("relay misbehaves")
)

// Config configures a [Pool]. Only URLs is required; the other zero values stand for
// the defaults named beside them.
type Config struct {
	URLs []string     // ws:// or wss://
	Log  *slog.Logger // nil discards
	// Signer authenticates to relays that require it (NIP-42). If it is nil, those
	// relays cannot be used.
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

	// Overlap is how far before the loss of a connection a subscription requests
	// events again. It must cover clock differences and late publications; 10 min.
	Overlap time.Duration
	// QueueEvents is how many events may wait for the reader of a subscription.
	// Further ones are dropped and fetched again later; 1024.
	QueueEvents int
}

// hardMessageBytes is the size of a message that ends the connection; shorter ones
// that are too long to parse are skipped.
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

// Pool keeps one connection to each relay. Its methods are safe for concurrent use.
// Calls made before [Pool.Serve] runs wait for it.
type Pool struct {
	cfg   Config
	http  *http.Client
	links []*link

	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	closed bool
}

// NewPool checks cfg. It makes no connection; [Pool.Serve] does.
func NewPool(cfg Config) (*Pool, error) {
	cfg = cfg.withDefaults()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	p := &Pool{
		cfg:  cfg,
		subs: map[*Subscription]struct{}{},
		// A redirect could lead to a relay that the owner did not choose.
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

// relayURL checks and normalises a relay's address.
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

// Serve keeps the relays connected until ctx ends. Then it closes every subscription
// and returns nil. It must be called once.
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

// State is the state of a connection.
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

// now is the current time in the unit of events.
func now() nostr.Timestamp { return nostr.Timestamp(time.Now().Unix()) }
