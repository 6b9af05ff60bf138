package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// newMarket is the configured relays and blob servers. An event counts as
// published once quorum relays took it.
func newMarket(c *config.Config, signer relay.Signer, quorum int, log *slog.Logger) (*exchange.Market, error) {
	m, err := exchange.New(exchange.Config{
		Relays: c.Relays, Blobs: c.BlobServers(), Signer: signer, Quorum: quorum, AllowLoopback: c.LocalBlobs(), Log: log,
	})
	if err != nil {
		return nil, advice.Usage("", "%w", err)
	}
	return m, nil
}

// onMarket signs as a role and connects the relays while do runs. An event counts as
// published once quorum relays took it.
func (c *Node) onMarket(ctx context.Context, role string, quorum int, do func(context.Context, keys.Signer, *exchange.Market) error) error {
	key, err := keys.Open(c.Config, role, c.log)
	if err != nil {
		return err
	}
	m, err := newMarket(c.Config, key, quorum, c.log)
	if err != nil {
		return err
	}

	serve, stop := context.WithCancel(ctx)
	var pool errgroup.Group
	pool.Go(func() error { return m.Serve(serve) })
	pool.Go(func() error { return key.Serve(serve) })
	err = do(ctx, key, m)
	stop()
	return cmp.Or(err, pool.Wait())
}

// Discover looks for providers of a job type, or of any for "". It opens no wallet, and
// reads what was bought before beside a running purchase too.
func (c *Node) Discover(ctx context.Context, schema string) (found []buyer.Found, err error) {
	history, err := c.history(ctx)
	if err != nil {
		return nil, err
	}
	err = c.onMarket(ctx, "buyer", 1, func(ctx context.Context, key keys.Signer, m *exchange.Market) (err error) {
		found, err = buyer.Scout{Market: m, Key: key.PublicKey(), History: history}.Find(ctx, schema, "")
		return advice.Hint(err, "lightwork doctor checks the relays")
	})
	return found, err
}

// Publish signs an event as a role and says what each relay answered. event is told the
// role's public key; nothing is published if check refuses what was signed.
func (c *Node) Publish(ctx context.Context, role string, event func(key string) (nostr.Event, error), check func(nostr.Event) error) (ev nostr.Event, acks []provider.Ack, err error) {
	err = c.onMarket(ctx, role, len(c.Relays), func(ctx context.Context, key keys.Signer, m *exchange.Market) (err error) {
		if ev, err = event(key.PublicKey()); err != nil {
			return err
		}
		if err := key.Sign(ctx, &ev); err != nil {
			return fmt.Errorf("sign kind %d: %w", ev.Kind, err)
		}
		if err := check(ev); err != nil {
			return fmt.Errorf("nothing is published: %w", err)
		}
		acks = m.Publish(ctx, ev)
		return nil
	})
	return ev, acks, err
}

// Retire takes the provider's announcement back. A provider that runs would announce
// itself again: its database must not be in use. It says how many jobs are open before
// it asks the relays.
func (c *Node) Retire(ctx context.Context, unfinished func(jobs int)) (acks []provider.Ack, err error) {
	k, err := store.Open(ctx, c.DataDir("provider"), store.Options{Logger: c.log})
	if err != nil {
		return nil, advice.Hint(err, "stop lightwork provider run first: it would announce itself again")
	}
	open, err := k.ProviderStore(jobsProfile).OpenJobs(ctx)
	if err = cmp.Or(err, k.Close()); err != nil {
		return nil, err
	}

	unfinished(len(open))
	err = c.onMarket(ctx, "provider", len(c.Relays), func(ctx context.Context, key keys.Signer, m *exchange.Market) (err error) {
		acks, err = provider.Retire(ctx, key, m, "")
		return err
	})
	return acks, err
}

// Names asks domains; what they say is kept with the buyer's data.
func (c *Node) Names() *nip05.Verifier {
	return nip05.New(nip05.Config{
		Client: relay.NewPublicClient(wallets.AddressDial), CacheFile: filepath.Join(c.DataDir("buyer"), "nip05.json"),
	})
}
