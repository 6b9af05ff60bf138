package crashtest

import (
	"context"
	"errors"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// market is one relay with its blob server, as both sides see it.
type market struct {
	pool   *relay.Pool
	host   string // "127.0.0.1:port"
	blobs  *relay.BlobClient
	signer relay.Signer
}

var (
	_ buyer.Market    = (*market)(nil)
	_ provider.Market = providerMarket{}
)

func newMarket(host string, signer relay.Signer) (*market, error) {
	pool, err := relay.NewPool(relay.Config{URLs: []string{"ws://" + host}})
	if err != nil {
		return nil, err
	}
	return &market{pool, host, relay.NewBlobClient(relay.BlobConfig{AllowLoopback: true}), signer}, nil
}

func (m *market) Relays() []string { return []string{"ws://" + m.host} }

func (m *market) Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error {
	sub, err := m.pool.Subscribe(ctx, filters, relay.SubscribeOptions{})
	if err != nil {
		return err
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

func (m *market) Query(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	return m.pool.Query(ctx, f)
}

func (m *market) Send(ctx context.Context, ev nostr.Event) error {
	for _, r := range m.pool.Publish(ctx, ev) {
		if !r.OK {
			return errors.Join(errors.New("not taken: "+r.Message), r.Err)
		}
	}
	return nil
}

func (m *market) Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error) {
	if len(urls) != 1 {
		return nil, errors.New("want one address")
	}
	return m.blobs.Download(ctx, urls[0], d, maxBytes)
}

func (m *market) BlobURLs(digest string) []string { return []string{"http://" + m.host + "/" + digest} }

func (m *market) Upload(ctx context.Context, data []byte, mime string) error {
	_, err := m.blobs.Upload(ctx, "http://"+m.host, data, mime, m.signer)
	return err
}

// providerMarket is market with the provider's form of Publish.
type providerMarket struct{ *market }

// Bring does nothing: these buyers read where the provider publishes.
func (m providerMarket) Bring(context.Context, string, nostr.Event) provider.Ack {
	return provider.Ack{}
}

func (m providerMarket) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	var acks []provider.Ack
	for _, r := range m.pool.Publish(ctx, ev) {
		a := provider.Ack{EventID: ev.ID, Relay: r.URL, OK: r.OK, Message: r.Message, At: time.Now().UTC()}
		if r.Err != nil {
			a.Message = r.Err.Error()
		}
		acks = append(acks, a)
	}
	return acks
}
