// Package exchange connects providers and buyers to a market: Nostr relays carry the
// events, Blossom servers the large blobs. A [Market] implements provider.Market and
// buyer.Market.
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

// Config names the servers of a market.
type Config struct {
	Relays []string // ws:// or wss:// addresses: all are written to and read
	Blobs  []string // http:// or https:// addresses of blob servers
	// Signer authenticates to relays and signs uploads.
	Signer relay.Signer
	// Quorum is how many relays must accept an event before Publish returns; 1.
	Quorum int
	// AllowLoopback lets blobs be fetched from this machine, and events be
	// brought to a relay on it that a buyer names.
	AllowLoopback bool
	Log           *slog.Logger // nil: none
}

// Market is connected while [Market.Serve] runs. It is safe for concurrent use.
type Market struct {
	Pool *relay.Pool // of the configured relays

	cfg       Config
	blobs     *relay.BlobClient
	publisher *relay.Publisher // to relays that others name
}

var (
	_ provider.Market = (*Market)(nil)
	_ buyer.Market    = (*Market)(nil)
)

// New makes a market that [Market.Serve] connects. The error is [relay.ErrConfig] if
// cfg names no relay or a bad address.
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
		blobs:     relay.NewBlobClient(relay.BlobConfig{Servers: cfg.Blobs, AllowLoopback: cfg.AllowLoopback}),
		publisher: relay.NewPublisher(relay.PublisherConfig{AllowLoopback: cfg.AllowLoopback}),
	}, nil
}

// blobServers checks the addresses and removes trailing slashes, so that a blob's URL
// has no empty path segment: buyers do not follow the redirect that it would cause.
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

// Listen calls handle for every verified event that matches, stored ones first,
// until ctx ends. It calls ready once a relay has accepted the subscription.
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

// Send offers an event to all relays and succeeds if one accepts it.
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

// Publish offers an event to all relays. Once enough have accepted it, Publish
// returns the answers so far.
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
	return ackOf(ev, m.publisher.Publish(ctx, url, ev))
}

func ackOf(ev nostr.Event, r relay.PublishResult) provider.Ack {
	a := provider.Ack{EventID: ev.ID, Relay: r.URL, OK: r.OK, Message: r.Message, At: time.Now().UTC()}
	if r.Err != nil {
		a.Message = r.Err.Error()
	}
	return a
}

// Fetch downloads a blob of at most maxBytes from the first address that serves the
// right bytes. The error is buyer.ErrUnreachable if no address is allowed.
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

// BlobURLs lists the addresses that a blob with this digest (hex) has once uploaded.
func (m *Market) BlobURLs(digestHex string) []string {
	urls := make([]string, len(m.cfg.Blobs))
	for i, s := range m.cfg.Blobs {
		urls[i] = s + "/" + digestHex
	}
	return urls
}

// TakesResults asks the blob servers whether they take our uploads. It is an error if each
// of them refuses; one that cannot be asked may take them.
func (m *Market) TakesResults(ctx context.Context) error {
	errs := m.atServers(func(server string) error { return m.blobs.MayUpload(ctx, server, m.cfg.Signer) })
	for _, err := range errs {
		if refusal := (*relay.BlobError)(nil); !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden {
			return nil
		}
	}
	return errors.Join(errs...)
}

// OpenRoom opens a room for the buyer of a request on the servers, or prolongs its life,
// and returns those that did.
func (m *Market) OpenRoom(ctx context.Context, requestID, buyer string, bytes int64, blobs int) (servers []string, err error) {
	room := relay.Room{Request: requestID, Uploader: buyer, Bytes: bytes, Blobs: blobs}
	errs := m.atServers(func(server string) error { return m.blobs.OpenRoom(ctx, server, room, m.cfg.Signer) })
	for i, err := range errs {
		if err == nil {
			servers = append(servers, m.cfg.Blobs[i])
		}
	}
	if len(servers) == 0 {
		return nil, errors.Join(append([]error{errNoRoom}, errs...)...)
	}
	return servers, nil
}

// errNoRoom: no server opens a room.
var errNoRoom = errors.New("no blob server has room for the input")

// CloseRoom removes the room of a request from all servers, with all that is in it.
func (m *Market) CloseRoom(ctx context.Context, requestID string) error {
	return errors.Join(m.atServers(func(server string) error { return m.blobs.CloseRoom(ctx, server, requestID, m.cfg.Signer) })...)
}

// UploadInto puts a blob into the room of a request, on the first of the provider's
// servers that takes it.
func (m *Market) UploadInto(ctx context.Context, servers []string, requestID string, data []byte) error {
	errs := []error{errors.New("no blob server takes the upload")}
	for _, server := range servers {
		err := m.blobs.UploadInto(ctx, server, requestID, data, m.cfg.Signer)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	return errors.Join(errs...)
}

// atServers asks all servers at once.
func (m *Market) atServers(ask func(server string) error) []error {
	errs := make([]error, len(m.cfg.Blobs))
	var g errgroup.Group
	for i, server := range m.cfg.Blobs {
		g.Go(func() error {
			if err := ask(server); err != nil {
				errs[i] = fmt.Errorf("%s: %w", server, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	return errs
}

// Upload offers a blob to all servers and succeeds if one accepts it. The error is
// provider.ErrBlobRefused if all of them refuse the blob itself.
func (m *Market) Upload(ctx context.Context, data []byte, mime string) error {
	if len(m.cfg.Blobs) == 0 {
		return fmt.Errorf("upload: %w: no blob servers", relay.ErrConfig)
	}

	errs := m.atServers(func(server string) error {
		_, err := m.blobs.Upload(ctx, server, data, mime, m.cfg.Signer)
		return err
	})
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

// RemoveBlob asks all blob servers to delete a blob of ours. Those that cannot be reached
// have it still.
func (m *Market) RemoveBlob(ctx context.Context, digest hashing.Digest) error {
	errs := make([]error, len(m.cfg.Blobs))
	for i, s := range m.cfg.Blobs {
		if err := m.blobs.Delete(ctx, s, digest, m.cfg.Signer); err != nil {
			errs[i] = fmt.Errorf("%s: %w", s, err)
		}
	}
	return errors.Join(errs...)
}

// refusesBlob reports whether an answer is about the blob, and not about the server,
// its free space or the uploader's key.
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
