package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// market is the relay pool and the blob servers, as provider and buyer see them.
type market struct {
	pool   *relay.Pool
	urls   []string
	blobs  []string
	client *relay.BlobClient
	signer relay.Signer
	quorum int
	// courier goes to relays that others name.
	courier *relay.Courier
}

var (
	_ provider.Market = providerMarket{}
	_ buyer.Market    = (*market)(nil)
)

func newMarket(c *config, signer relay.Signer, log *slog.Logger) (*market, error) {
	pool, err := relay.NewPool(relay.Config{URLs: c.Relays, Log: log, Signer: signer})
	if err != nil {
		return nil, usage("", "relays: %w", err)
	}
	return &market{
		pool: pool, urls: c.Relays, blobs: c.blobServers(), signer: signer, quorum: 1,
		courier: relay.NewCourier(relay.CourierConfig{AllowLoopback: c.localBlobs()}),
		client:  relay.NewBlobClient(relay.BlobConfig{AllowLoopback: c.localBlobs()}),
	}, nil
}

// serve runs the connections until ctx ends.
func (m *market) serve(ctx context.Context) error {
	defer m.client.Close()
	return m.pool.Serve(ctx)
}

// localBlobs reports whether the owner named a blob server on this machine:
// only then may blobs be fetched from loopback addresses.
func (c *config) localBlobs() bool {
	for _, s := range c.blobServers() {
		if u, err := url.Parse(s); err == nil {
			switch u.Hostname() {
			case "127.0.0.1", "::1", "localhost":
				return true
			}
		}
	}
	return false
}

// Relays are the configured addresses.
func (m *market) Relays() []string { return m.urls }

// Listen implements both sides' Market.
func (m *market) Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error {
	sub, err := m.pool.Subscribe(ctx, filters, relay.SubscribeOptions{})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Close()
	live := sub.Ready()
	for {
		select {
		case <-live:
			live = nil
			ready()
		case in, ok := <-sub.Events():
			if !ok {
				return errors.Join(relay.ErrClosed, ctx.Err())
			}
			handle(in.Event)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Query implements buyer.Market.
func (m *market) Query(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	return m.pool.Query(ctx, f)
}

// Send implements buyer.Market: one relay's OK is enough.
func (m *market) Send(ctx context.Context, ev nostr.Event) error {
	results := m.pool.PublishQuorum(ctx, ev, 1)
	if relay.Accepted(results) > 0 {
		return nil
	}
	var errs []error
	for _, r := range results {
		errs = append(errs, answerError(r))
	}
	return errors.Join(errs...)
}

func answerError(r relay.PublishResult) error {
	if r.Err != nil {
		return fmt.Errorf("%s: %w", r.URL, r.Err)
	}
	return fmt.Errorf("%s refused: %s", r.URL, r.Message)
}

// Fetch implements buyer.Market.
func (m *market) Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error) {
	var errs []error
	for _, u := range urls {
		data, err := m.client.Download(ctx, u, d, maxBytes)
		if err == nil {
			return data, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, errors.New("no address is given for it")
	}
	return nil, errors.Join(errs...)
}

// BlobURLs implements provider.Market.
func (m *market) BlobURLs(digestHex string) []string {
	urls := make([]string, len(m.blobs))
	for i, s := range m.blobs {
		urls[i] = s + "/" + digestHex
	}
	return urls
}

// Upload implements provider.Market: all servers are tried, one must take it.
func (m *market) Upload(ctx context.Context, data []byte, mime string) error {
	errs := make([]error, len(m.blobs))
	var g errgroup.Group
	for i, s := range m.blobs {
		g.Go(func() error {
			_, errs[i] = m.client.Upload(ctx, s, data, mime, m.signer)
			return nil
		})
	}
	_ = g.Wait()
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// providerMarket is market with the provider's form of Publish.
type providerMarket struct{ *market }

// Publish returns once enough relays took the event; who was not awaited is
// asked again by the outbox.
func (m providerMarket) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	var acks []provider.Ack
	for _, r := range m.pool.PublishQuorum(ctx, ev, m.quorum) {
		if errors.Is(r.Err, relay.ErrNotAwaited) {
			continue
		}
		a := provider.Ack{EventID: ev.ID, Relay: r.URL, OK: r.OK, Message: r.Message, At: time.Now().UTC()}
		if r.Err != nil {
			a.Message = r.Err.Error()
		}
		acks = append(acks, a)
	}
	return acks
}

// Bring implements provider.Market.
func (m providerMarket) Bring(ctx context.Context, url string, ev nostr.Event) provider.Ack {
	r := m.courier.Publish(ctx, url, ev)
	a := provider.Ack{EventID: ev.ID, Relay: url, OK: r.OK, Message: r.Message, At: time.Now().UTC()}
	if r.Err != nil {
		a.Message = r.Err.Error()
	}
	return a
}
