// Package exchange is the market as a provider and a buyer know it: Nostr relays
// for what is said, Blossom servers for what is large. A [Market] is both
// provider.Market and buyer.Market.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// Config says where a market is.
type Config struct {
	Relays []string // ws:// or wss:// addresses: all are written to and read
	Blobs  []string // http:// or https:// addresses of blob servers
	// Signer authenticates to relays and signs uploads.
	Signer relay.Signer
	// Quorum is how many relays Publish waits for until they took an event; 1.
	Quorum int
	// AllowLoopback lets blobs be fetched from this machine, and events be
	// brought to a relay on it that a buyer names.
	AllowLoopback bool
	Log           *slog.Logger // nil: none
}

// Market is connected while Serve runs. It is safe for concurrent use.
type Market struct {
	Pool *relay.Pool // of the configured relays

	cfg     Config
	blobs   *relay.BlobClient
	courier *relay.Courier // to relays that others name
}

var (
	_ provider.Market = (*Market)(nil)
	_ buyer.Market    = (*Market)(nil)
)

// New makes a market that Serve connects: relay.ErrConfig if it names no relay, or
// something that is no address.
func New(cfg Config) (*Market, error) {
	pool, err := relay.NewPool(relay.Config{URLs: cfg.Relays, Log: cfg.Log, Signer: cfg.Signer})
	if err != nil {
		return nil, fmt.Errorf("relays: %w", err)
	}
	if cfg.Blobs, err = blobServers(cfg.Blobs); err != nil {
		return nil, err
	}
	cfg.Quorum = max(cfg.Quorum, 1)
	return &Market{
		Pool: pool, cfg: cfg,
		blobs:   relay.NewBlobClient(relay.BlobConfig{Servers: cfg.Blobs, AllowLoopback: cfg.AllowLoopback}),
		courier: relay.NewCourier(relay.CourierConfig{AllowLoopback: cfg.AllowLoopback}),
	}, nil
}

// blobServers are the addresses in the form that a blob's name is put behind: a
// buyer follows no redirect from an empty folder.
func blobServers(named []string) ([]string, error) {
	servers := make([]string, len(named))
	for i, raw := range named {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" { // it may hold a password
			return nil, fmt.Errorf("blob server %d of %d: %w: not an http:// or https:// address", i+1, len(named), relay.ErrConfig)
		}
		servers[i] = strings.TrimRight(raw, "/")
	}
	return servers, nil
}

// Serve runs the connections until ctx ends, and returns its error.
func (m *Market) Serve(ctx context.Context) error {
	defer m.blobs.Close()
	return m.Pool.Serve(ctx)
}

// Relays are the configured addresses.
func (m *Market) Relays() []string { return m.cfg.Relays }

// Listen hands every verified event that matches to handle, stored ones first,
// until ctx ends; ready is called once a relay has begun to serve it.
func (m *Market) Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error {
	sub, err := m.Pool.Subscribe(ctx, filters, relay.SubscribeOptions{})
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

// Query returns stored events, from all relays, newest first.
func (m *Market) Query(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	return m.Pool.Query(ctx, f)
}

// Send offers an event to all relays: one that takes it is enough.
func (m *Market) Send(ctx context.Context, ev nostr.Event) error {
	results := m.Pool.PublishQuorum(ctx, ev, 1)
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

// Publish offers an event to all relays and returns once enough took it, with
// the answers until then.
func (m *Market) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	var acks []provider.Ack
	for _, r := range m.Pool.PublishQuorum(ctx, ev, m.cfg.Quorum) {
		if !errors.Is(r.Err, relay.ErrNotAwaited) {
			acks = append(acks, ackOf(ev, r))
		}
	}
	return acks
}

// Forward offers an event to a relay that a buyer named, once.
func (m *Market) Forward(ctx context.Context, url string, ev nostr.Event) provider.Ack {
	return ackOf(ev, m.courier.Publish(ctx, url, ev))
}

func ackOf(ev nostr.Event, r relay.PublishResult) provider.Ack {
	a := provider.Ack{EventID: ev.ID, Relay: r.URL, OK: r.OK, Message: r.Message, At: time.Now().UTC()}
	if r.Err != nil {
		a.Message = r.Err.Error()
	}
	return a
}

// Fetch gets a blob of at most maxBytes from the first address that has the
// right bytes. The error is buyer.ErrUnreachable where none of them may be asked.
func (m *Market) Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error) {
	var errs []error
	hopeless := true
	for _, u := range urls {
		data, err := m.blobs.Download(ctx, u, d, maxBytes)
		if err == nil {
			return data, nil
		}
		hopeless = hopeless && errors.Is(err, relay.ErrBlockedAddress)
		errs = append(errs, err)
	}
	if hopeless {
		errs = append([]error{buyer.ErrUnreachable}, errs...)
	}
	return nil, errors.Join(errs...)
}

// BlobURLs says where a blob of this digest (hex) will be found.
func (m *Market) BlobURLs(digestHex string) []string {
	urls := make([]string, len(m.cfg.Blobs))
	for i, s := range m.cfg.Blobs {
		urls[i] = s + "/" + digestHex
	}
	return urls
}

// Upload offers a blob to all servers: one that takes it is enough, and needed. The
// error is provider.ErrBlobRefused where all refuse it for what it is.
func (m *Market) Upload(ctx context.Context, data []byte, mime string) error {
	if len(m.cfg.Blobs) == 0 {
		return fmt.Errorf("upload: %w: no blob servers", relay.ErrConfig)
	}
	errs := make([]error, len(m.cfg.Blobs))
	var g errgroup.Group
	for i, s := range m.cfg.Blobs {
		g.Go(func() error {
			_, errs[i] = m.blobs.Upload(ctx, s, data, mime, m.cfg.Signer)
			return nil
		})
	}
	_ = g.Wait()
	refused := true
	for _, err := range errs {
		if err == nil {
			return nil
		}
		refused = refused && refusesBlob(err)
	}
	if refused {
		errs = append([]error{provider.ErrBlobRefused}, errs...)
	}
	return errors.Join(errs...)
}

// refusesBlob reports an answer that is about the blob, not about the server, its
// room or who asks.
func refusesBlob(err error) bool {
	var answer *relay.BlobError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
