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
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// Config says which wallet service to use. Connection is needed; the rest may
// be left zero.
type Config struct {
	Connection Connection

	// Network is the chain the wallet must be on; another ends in
	// payments.ErrWrongNetwork. Empty accepts any.
	Network payments.Network

	// CallTimeout bounds each question to the service. 0 means 30 s.
	CallTimeout time.Duration

	// HoldTime is how long after its making a held invoice is trusted to be
	// held, where the service names no deadline. 0 means one hour; invoices
	// are asked for with 144 blocks.
	HoldTime time.Duration

	// BlockTime is the pessimistic time between blocks by which a deadline
	// that is a block height becomes a time. 0 means 5 minutes.
	BlockTime time.Duration

	// Log receives what the service does wrong. Nil discards it.
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

// Client is a wallet backend on a wallet service. Its methods may be called
// from many goroutines, also before Serve runs: they then wait for it.
type Client struct {
	cfg     Config
	pool    *relay.Pool
	channel *channel

	live  chan struct{} // closed once answers reach us
	ended chan struct{} // closed when Serve returns

	mu       sync.Mutex
	info     Info // the newest; zero before the first
	infoErr  error
	informed chan struct{}           // closed once info or infoErr is set
	node     payments.Node           // zero before the first get_info
	pending  map[string]*pendingCall // by id of the request event
	attempts map[payments.Hash]*attempt
	watchers map[chan payments.Hash]struct{}
	changed  chan struct{} // closed and replaced when something may have changed
}

// Open checks cfg. It connects to nobody; Serve does.
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

// maxEvent bounds the events of a connection, in bytes: the largest sealed
// text and its frame.
const maxEvent = 96 << 10

// Serve keeps the connection to the relays until ctx ends and returns nil. It
// is called once.
func (c *Client) Serve(ctx context.Context) error {
	defer close(c.ended)

	var serving sync.WaitGroup
	defer serving.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	serving.Go(func() { _ = c.pool.Serve(ctx) }) // returns nil
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

// receive takes an event of the wallet's whose signature was checked.
func (c *Client) receive(ev *nostr.Event) {
	if domain.Allow(domain.Wallet, ev.Tags) != nil {
		return // another program's wallet names no domain
	}
	switch ev.Kind {
	case kindInfo:
		c.inform(ev)
	case kindResponse:
		c.answered(ev)
	case kindNotifyNIP04, kindNotifyNIP44:
		c.notified(ev)
	}
}

func (c *Client) inform(ev *nostr.Event) {
	info, err := parseInfo(ev)
	c.mu.Lock()
	defer c.mu.Unlock()

	first := c.info.At.IsZero() && c.infoErr == nil
	if !first && !ev.CreatedAt.Time().After(c.info.At) {
		return // relays may have old ones
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

// Info waits for what the service announces of itself.
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

// relays says what is wrong with the relays, nil if one is connected.
func (c *Client) relays() error {
	var errs []error
	for _, s := range c.pool.Status() {
		if s.State == relay.StateConnected {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %s", s.URL, payments.Printable(s.Error, 200)))
	}
	return errors.Join(errs...)
}

// notified passes a notification on as a hint: what it says is asked again.
func (c *Client) notified(ev *nostr.Event) {
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
			default: // hints may be lost
			}
		}
	}

	c.wake()
}

// wake lets those who wait look again; c.mu is held.
func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// WatchInvoices calls hint with the hash of each invoice that the service
// notifies of, until ctx ends; it returns ctx's error. A service without
// notifications hints at nothing: look at open invoices now and then.
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
