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

// Market is the market that a node speaks to, without a purchase or a sale.
type Market struct{ c *Node }

// Market is that of this node's relays.
func (c *Node) Market() Market { return Market{c} }

// on signs as a role and connects the relays while do runs. An event counts as
// published once quorum relays took it.
func (m Market) on(ctx context.Context, role string, quorum int, do func(context.Context, keys.Signer, *exchange.Market) error) error {
	key, err := keys.Open(m.c.Config, role, m.c.log)
	if err != nil {
		return err
	}
	market, err := newMarket(m.c.Config, key, quorum, m.c.log)
	if err != nil {
		return err
	}

	serve, stop := context.WithCancel(ctx)
	var pool errgroup.Group
	pool.Go(func() error { return market.Serve(serve) })
	pool.Go(func() error { return key.Serve(serve) })
	err = do(ctx, key, market)
	stop()
	return cmp.Or(err, pool.Wait())
}

// Discover looks for providers of a job type, or of any for "". It opens no wallet, and
// reads what was bought before beside a running purchase too.
func (m Market) Discover(ctx context.Context, schema string) (found []buyer.Found, err error) {
	history, err := m.c.Databases().history(ctx)
	if err != nil {
		return nil, err
	}
	err = m.on(ctx, "buyer", 1, func(ctx context.Context, key keys.Signer, market *exchange.Market) (err error) {
		found, err = buyer.Scout{Market: market, Key: key.PublicKey(), History: history}.Find(ctx, schema, "")
		return advice.Hint(err, advice.Check+" checks the relays")
	})
	return found, err
}

// Publish signs an event as a role and says what each relay answered. event is told the
// role's public key; nothing is published if check refuses what was signed.
func (m Market) Publish(ctx context.Context, role string, event func(key string) (nostr.Event, error), check func(nostr.Event) error) (ev nostr.Event, acks []provider.Ack, err error) {
	err = m.on(ctx, role, len(m.c.Relays), func(ctx context.Context, key keys.Signer, market *exchange.Market) (err error) {
		if ev, err = event(key.PublicKey()); err != nil {
			return err
		}
		if err := key.Sign(ctx, &ev); err != nil {
			return fmt.Errorf("sign kind %d: %w", ev.Kind, err)
		}
		if err := check(ev); err != nil {
			return fmt.Errorf("nothing is published: %w", err)
		}
		acks = market.Publish(ctx, ev)
		return nil
	})
	return ev, acks, err
}

// Retire takes the provider's announcement back. A provider that runs would announce
// itself again: its database must not be in use. It says how many jobs are open before
// it asks the relays.
func (m Market) Retire(ctx context.Context, unfinished func(jobs int)) (acks []provider.Ack, err error) {
	k, err := store.Open(ctx, m.c.DataDir("provider"), store.Options{Logger: m.c.log})
	if err != nil {
		return nil, advice.Hint(err, "stop "+advice.RunProvider+" first: it would announce itself again")
	}
	open, err := k.Sales(jobsProfile).OpenJobs(ctx)
	if err = cmp.Or(err, k.Close()); err != nil {
		return nil, err
	}

	unfinished(len(open))
	err = m.on(ctx, "provider", len(m.c.Relays), func(ctx context.Context, key keys.Signer, market *exchange.Market) (err error) {
		acks, err = provider.Retire(ctx, key, market, "")
		return err
	})
	return acks, err
}

// Names asks domains; what they say is kept with the buyer's data.
func (m Market) Names() *nip05.Verifier {
	return nip05.New(nip05.Config{
		Client: relay.NewPublicClient(wallets.AddressDial), CacheFile: filepath.Join(m.c.DataDir("buyer"), "nip05.json"),
	})
}
