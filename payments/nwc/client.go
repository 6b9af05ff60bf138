package nwc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// Config configures a [Client]. Connection is required.
type Config struct {
	Connection Connection

	// Network is the required chain of the wallet; another one gives
	// payments.ErrWrongNetwork. Empty accepts any.
	Network payments.Network

	// CallTimeout bounds each request to the service. 0 means 30 s.
	CallTimeout time.Duration

	// HoldTime is how long after its creation a held invoice is assumed to stay
	// held, if the service states no deadline. 0 means one hour; invoices are
	// requested with 144 blocks.
	HoldTime time.Duration

	// BlockTime is a pessimistic time between blocks, for converting deadlines from
	// block heights. 0 means 5 minutes.
	BlockTime time.Duration

	// MaySpend is asked before each payment is begun.
	MaySpend payments.MaySpend

	// Log receives faults of the service. If it is nil, nothing is logged.
	Log *slog.Logger
}

func (c *Config) setDefaults() {
	if c.CallTimeout <= 0 {
		c.CallTimeout = 30 * time.Second
	}
	if c.HoldTime <= 0 {
		c.HoldTime = time.Hour
	}
	if c.BlockTime <= 0 {
		c.BlockTime = 5 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Client is a wallet backend on a wallet service. Its methods are safe for
// concurrent use; before Serve runs, they wait for it.
type Client struct {
	cfg     Config
	pool    *relay.Pool
	channel *channel

	live  chan struct{} // closed once answers can reach us
	ended chan struct{} // closed when Serve returns

	mu       sync.Mutex
	info     Info // the latest; zero before the first
	infoErr  error
	informed chan struct{}           // closed once info or infoErr is set
	node     payments.Node           // zero before the first get_info
	pending  map[string]*pendingCall // by id of the request event
	attempts map[payments.Hash]*attempt
	watchers map[chan payments.Hash]struct{}
	changed  chan struct{} // closed and replaced at every possible change
}

// Open checks cfg. It does not connect; Serve does.
func Open(cfg Config) (*Client, error) {
	cfg.setDefaults()
	if cfg.Connection.Secret.key == nil {
		return nil, fmt.Errorf("open wallet connection: %w: no connection", ErrURI)
	}
	ch, err := newChannel(cfg.Connection.Secret, cfg.Connection.Wallet)
	if err != nil {
		return nil, fmt.Errorf("open wallet connection: %w", err)
	}
	pool, err := relay.NewPool(relay.Config{URLs: cfg.Connection.Relays, Log: cfg.Log, MaxEventBytes: maxEvent})
	if err != nil {
		return nil, fmt.Errorf("open wallet connection: %w", err)
	}

	return &Client{
		cfg: cfg, pool: pool, channel: ch,
		live: make(chan struct{}), ended: make(chan struct{}), informed: make(chan struct{}), changed: make(chan struct{}),
		pending:  map[string]*pendingCall{},
		attempts: map[payments.Hash]*attempt{},
		watchers: map[chan payments.Hash]struct{}{},
	}, nil
}

// maxEvent bounds the events of a connection, in bytes: the largest encrypted text
// with its envelope.
const maxEvent = 96 << 10

// Serve keeps the connection to the relays until ctx ends and then returns nil. It
// must be called only once.
func (c *Client) Serve(ctx context.Context) error {
	defer close(c.ended)

	var serving sync.WaitGroup
	defer serving.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	serving.Go(func() { _ = c.pool.Serve(ctx) }) // always returns nil
	wallet := []string{c.cfg.Connection.Wallet}
	sub, err := c.pool.Subscribe(ctx, []nostr.Filter{
		{Kinds: []int{kindInfo}, Authors: wallet},
		{
			Kinds: []int{kindResponse, kindNotifyNIP04, kindNotifyNIP44}, Authors: wallet,
			Tags: nostr.TagMap{"p": {c.cfg.Connection.Secret.PublicKey()}}, LimitZero: true,
		},
	}, relay.SubscribeOptions{})
	if err != nil {
		return fmt.Errorf("subscribe to the wallet: %w", err)
	}
	defer sub.Close()

	ready := sub.Ready()
	for {
		select {
		case in, ok := <-sub.Events():
			if !ok {
				return nil
			}
			c.receive(&in.Event)
		case <-ready:
			close(c.live)
			ready = nil
		case <-ctx.Done():
			return nil
		}
	}
}

// receive handles an event of the wallet whose signature was checked.
func (c *Client) receive(ev *nostr.Event) {
	if domain.Allow(domain.Wallet, ev.Tags) != nil {
		return // wallets of other programs name no domain
	}
	switch ev.Kind {
	case kindInfo:
		c.inform(ev)
	case kindResponse:
		c.onAnswer(ev)
	case kindNotifyNIP04, kindNotifyNIP44:
		c.onNotification(ev)
	}
}

func (c *Client) inform(ev *nostr.Event) {
	info, err := parseInfo(ev)
	c.mu.Lock()
	defer c.mu.Unlock()

	first := c.info.At.IsZero() && c.infoErr == nil
	if !first && !ev.CreatedAt.Time().After(c.info.At) {
		return // relays may return old events
	}
	if err != nil {
		c.cfg.Log.Warn("the wallet's info event is not usable", "err", err)
		info.At = ev.CreatedAt.Time().UTC()
	}

	c.info, c.infoErr = info, err
	if first {
		close(c.informed)
	}
}

// Info waits for the wallet's info event and returns it.
func (c *Client) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()

	for _, ready := range []<-chan struct{}{c.live, c.informed} {
		select {
		case <-ready:
		case <-c.ended:
			return Info{}, fmt.Errorf("%w: the connection is closed", payments.ErrWalletUnavailable)
		case <-ctx.Done():
			return Info{}, fmt.Errorf("%w: the wallet sent no info event: %w", payments.ErrWalletUnavailable, errors.Join(ctx.Err(), c.relays()))
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.infoErr != nil {
		return Info{}, fmt.Errorf("%w: %w", payments.ErrWalletUnavailable, c.infoErr)
	}
	return c.info, nil
}

// relays returns the errors of the relays, nil if one is connected.
func (c *Client) relays() error {
	var errs []error
	for _, s := range c.pool.Status() {
		if s.State == relay.StateConnected {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %s", s.URL, clip.Line(s.Error, 200)))
	}
	return errors.Join(errs...)
}

// onNotification passes on a notification as a hint; its content is always looked up
// again.
func (c *Client) onNotification(ev *nostr.Event) {
	scheme := NIP44
	if ev.Kind == kindNotifyNIP04 {
		scheme = NIP04
	}
	doc, err := c.channel.open(scheme, ev.Content)
	var hash payments.Hash
	var kind string
	if err == nil {
		kind, hash, err = parseNotification(doc)
	}
	if err != nil {
		c.cfg.Log.Warn("the wallet's notification is not usable", "event", ev.ID, "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	if kind == notePaymentReceived || kind == noteHoldAccepted {
		for w := range c.watchers {
			select {
			case w <- hash:
			default: // a hint may be lost
			}
		}
	}

	c.wake()
}

// wake wakes all waiting callers; c.mu must be held.
func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// WatchInvoices calls hint with the hash of each invoice about which the service
// sends a notification, until ctx ends; then it returns ctx's error. A service
// without notifications gives no hints, so open invoices must also be looked up
// from time to time.
func (c *Client) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	hints := make(chan payments.Hash, 256)
	c.mu.Lock()
	c.watchers[hints] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watchers, hints)
		c.mu.Unlock()
	}()

	for {
		select {
		case h := <-hints:
			hint(h)
		case <-c.ended:
			return fmt.Errorf("watch invoices: %w: the connection is closed", payments.ErrWalletUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("watch invoices: %w", ctx.Err())
		}
	}
}
