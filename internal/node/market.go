package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
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

// Sign signs an event as a role; nothing is published.
func (m Market) Sign(ctx context.Context, role string, ev *nostr.Event) error {
	return m.on(ctx, role, 1, func(ctx context.Context, key keys.Signer, _ *exchange.Market) error {
		if err := key.Sign(ctx, ev); err != nil {
			return fmt.Errorf("sign kind %d: %w", ev.Kind, err)
		}
		return nil
	})
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

// checkIdle refuses a role with open work, or whose node runs.
func (m Market) checkIdle(ctx context.Context, role string) (err error) {
	k, err := store.Open(ctx, m.c.DataDir(role), store.Options{Logger: m.c.log})
	if err != nil {
		return advice.Hint(err, "stop the node first: it would go on under the old key")
	}
	defer func() { err = cmp.Or(err, k.Close()) }()

	var open []string
	events := 0
	if role == "provider" {
		left, err := (&Sales{k.Sales(jobsProfile)}).LeftOpen(ctx)
		if err != nil {
			return err
		}
		open, events = left.Jobs, left.Events
		for _, r := range left.Refunds {
			open = append(open, r.RequestID)
		}
	} else {
		for _, list := range []func(context.Context) ([]string, error){k.Purchases().OpenPurchases, k.Purchases().OpenOrders, purchasesIn(k, m.c).OpenPanels} {
			ids, err := list(ctx)
			if err != nil {
				return err
			}
			open = append(open, ids...)
		}
	}

	if len(open)+events == 0 {
		return nil
	}
	first := ""
	if len(open) > 0 {
		first = open[0]
	}
	hint := advice.Drain + " ends them, then the key can change"
	if role == "buyer" {
		hint = advice.ResumePurchases + " ends them, then the key can change"
	}
	return advice.Hint(&keys.OpenWorkError{Role: role, Count: len(open) + events, First: first}, hint)
}

// RotateKey has the role's key announce the next one, which is in its file already, and
// puts that in its place. Whatever ends it, the same call goes on: the statement is
// written before anybody hears of it, and never made anew.
func (m Market) RotateKey(ctx context.Context, role string) (next keys.RoleKey, acks []provider.Ack, err error) {
	c := m.c.Config
	if err := m.checkIdle(ctx, role); err != nil {
		return next, nil, err
	}
	if next, err = keys.ReadAt(keys.NextPath(c, role), role); err != nil {
		return next, nil, err
	}
	follows, err := next.Signer(c, m.c.log)
	if err != nil {
		return next, nil, err
	}

	err = m.on(ctx, role, len(c.Relays), func(ctx context.Context, key keys.Signer, market *exchange.Market) error {
		serve, stop := context.WithCancel(ctx)
		var pool errgroup.Group
		pool.Go(func() error { return follows.Serve(serve) })
		acks, err = m.change(ctx, role, key, follows, market)
		stop()
		return cmp.Or(err, pool.Wait())
	})
	if err != nil {
		return next, acks, err
	}

	path := c.KeyFile(role)
	if err := keys.KeepOld(path); err != nil {
		return next, acks, err
	}
	return next, acks, keys.MoveIn(keys.NextPath(c, role), path) // the old key has named it: its file stays, whatever fails
}

// errNotTaken is why a key change did not reach its readers.
var errNotTaken = errors.New("no relay took the key change")

// change has both keys sign, writes what they signed, and publishes it.
func (m Market) change(ctx context.Context, role string, key, next keys.Signer, market *exchange.Market) ([]provider.Ack, error) {
	own := keys.ChangesOf(m.c.Config, role)
	events, history, err := own.Read()
	if err != nil {
		return nil, err
	}
	if key.PublicKey() == next.PublicKey() {
		return nil, advice.Usage("name another key", "the next key is the one that is there")
	}

	end, ended := history.End(key.PublicKey())
	if ended && end.Next != "" && end.Next != next.PublicKey() {
		return nil, advice.Usage("put the key back that it names, as "+keys.NextPath(m.c.Config, role), "the %s key has named another next key before, and a key that names two is believed no more", role)
	}
	if end.Next == "" {
		reason := receipts.KeyRotated
		if ended {
			reason = receipts.KeyRetired
		}
		statement, err := keys.SignEnd(ctx, key, next.PublicKey(), reason)
		if err != nil {
			return nil, err
		}
		accepted, err := keys.SignAcceptance(ctx, next, statement)
		if err != nil {
			return nil, err
		}
		if err := own.Add(statement, accepted); err != nil {
			return nil, err
		}
		events = append(events, statement, accepted)
	}

	return publishChanges(ctx, market, events)
}

// publishChanges offers events to all relays; of each one must take it.
func publishChanges(ctx context.Context, market *exchange.Market, events []receipts.Event) (acks []provider.Ack, err error) {
	for _, ev := range events {
		answers := market.Publish(ctx, keys.ToNostr(ev))
		acks = append(acks, answers...)
		if !slices.ContainsFunc(answers, func(a provider.Ack) bool { return a.OK }) {
			err = advice.Hint(errNotTaken, advice.Check+" checks the relays; the same command goes on")
		}
	}
	return acks, err
}

// RetireKey has a role's key say that it is believed no more. It asks for nothing to
// have ended: others may hold the key.
func (m Market) RetireKey(ctx context.Context, role string) (key string, acks []provider.Ack, err error) {
	own := keys.ChangesOf(m.c.Config, role)
	err = m.on(ctx, role, len(m.c.Relays), func(ctx context.Context, signer keys.Signer, market *exchange.Market) error {
		key = signer.PublicKey()
		events, history, err := own.Read()
		if err != nil {
			return err
		}
		if end, ended := history.End(key); !ended || end.Reason != receipts.KeyRetired {
			statement, err := keys.SignEnd(ctx, signer, "", receipts.KeyRetired)
			if err != nil {
				return err
			}
			if err := own.Add(statement); err != nil {
				return err
			}
			events = append(events, statement)
		}

		acks, err = publishChanges(ctx, market, events)
		return err
	})
	return key, acks, err
}

// keyChangesMost bounds the answer about one key: whoever names it in an event is in it.
const keyChangesMost = 500

// KeyChanges asks the relays what keys (hex) have said of themselves, and what others
// said of following them; what the roles here said is in it. What cannot be believed is
// left out.
func (m Market) KeyChanges(ctx context.Context, role string, asked []string) (events []receipts.Event, history *receipts.KeyHistory, err error) {
	history = &receipts.KeyHistory{}
	seen := map[string]bool{}
	add := func(ev receipts.Event) {
		if _, err := history.Add(ev); err == nil && !seen[ev.ID] {
			seen[ev.ID] = true
			events = append(events, ev)
		}
	}
	for _, own := range []string{"provider", "buyer"} {
		said, _, err := keys.ChangesOf(m.c.Config, own).Read()
		if err != nil {
			return nil, nil, err
		}
		for _, ev := range said {
			add(ev)
		}
	}

	err = m.on(ctx, role, 1, func(ctx context.Context, _ keys.Signer, market *exchange.Market) error {
		done := map[string]bool{}
		for len(asked) > 0 && len(done) < keyChangesMost {
			key := asked[0]
			asked = asked[1:]
			if done[key] {
				continue
			}
			done[key] = true
			for _, f := range []nostr.Filter{
				{Kinds: []int{kinds.KeyChange}, Authors: []string{key}, Limit: keyChangesMost},
				{Kinds: []int{kinds.KeyChange}, Tags: nostr.TagMap{"p": {key}}, Limit: keyChangesMost},
			} {
				found, err := market.Query(ctx, f)
				if err != nil {
					return advice.Hint(err, advice.Check+" checks the relays")
				}
				for _, ev := range found {
					read, err := keys.FromNostr(ev)
					if err != nil {
						continue
					}
					add(read)
					if s, err := receipts.ParseKeyStatement(read); err == nil && s.Accepted {
						asked = append(asked, s.Key, s.Next)
					}
				}
			}
		}
		return nil
	})
	return events, history, err
}
