package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
	"golang.org/x/sync/errgroup"
)

// StopTime is how long agents get to end when the node stops.
const StopTime = 10 * time.Second

// RunProvider is a provider's whole life: open, serve until ctx ends, close.
// tell hears once the agents have registered and selling begins, and what
// happens then. A signal of reread has the organism read again.
func RunProvider(ctx context.Context, c *Node, log *slog.Logger, tell *SaleLog, reread <-chan os.Signal) (err error) {
	defer func() { err = wallets.Trouble(err, "provider", c.Provider.Wallet) }()

	key, err := keys.Open(c.Config, "provider", log)
	if err != nil {
		return err
	}
	secret, err := keys.RootSecret(c.Path(c.Identity.RootSecretFile))
	if err != nil {
		return err
	}
	dir := c.DataDir("provider")
	k, err := store.Open(ctx, dir, store.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, k.Close()) }()

	pinned, err := followPin(ctx, c, k)
	if err != nil {
		return err
	}
	w, closeWallet, err := wallets.Open(ctx, c.Config, c.Provider.Wallet, "provider", log)
	if err != nil {
		return err
	}
	defer closeWallet()

	if err := wallets.CheckRights(ctx, w, "provider", c.Provider.Wallet); err != nil {
		return err
	}
	m, err := newMarket(c.Config, key, 1, log)
	if err != nil {
		return err
	}
	people := organisms.New(k, c.Version, log)
	desk := &debtDesk{}
	agents, sup, stopAgents, err := openHost(ctx, c, k, people, desk, log)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, stopAgents(ctx)) }()

	routes, err := routesOf(c.Config)
	if err != nil {
		return err
	}
	run, err := newRunner(k, sup, routes, key.PublicKey(), filepath.Join(dir, "runs"), log)
	if err != nil {
		return err
	}
	agents.StartAll(ctx)
	goods, err := newStock(c, agents, sup, routes, tell)
	if err != nil {
		return err
	}
	offers, unpaid, less, err := wallets.Payable(ctx, w, c.Offers())
	if err != nil {
		return advice.Hint(err, wallets.Hint(err, "provider", c.Provider.Wallet))
	}
	for _, why := range less {
		tell.say("%s", why)
	}
	goods.unpaid = unpaid
	open, err := k.Sales(jobsProfile).OpenJobs(ctx)
	if err != nil {
		return err
	}
	if err := goods.check(ctx, len(open)); err != nil {
		return err
	}

	build := func(ctx context.Context) error { return people.Build(ctx, c.Config, agents, sup) }
	if err := people.Start(ctx, c.Config, build); err != nil {
		return err
	}
	if err := people.EndInterrupted(ctx); err != nil {
		return err
	}

	cfg, err := providerConfigOf(c, key, k, m, run, log)
	if err != nil {
		return err
	}
	cfg.Hardware = hardwareHere(ctx)
	if err := checkPin(pinned, cfg.Policy); err != nil {
		return err
	}
	cfg.RootSecret, cfg.Offers = secret, offers
	cfg.Withdrawn, cfg.Takes = goods.withdrawn, goods.takes
	if w != nil {
		cfg.Wallet, cfg.Refunds, cfg.LeastMsats = w, wallets.Refunds(c.Config, w), wallets.LeastMsats(c.Config)
		if cfg.MakeInvoice, err = wallets.MakerOf(ctx, w); err != nil {
			return advice.Hint(err, wallets.Hint(err, "provider", c.Provider.Wallet))
		}
	}

	board, err := boardOf(ctx, cfg)
	if err != nil {
		return err
	}
	seen, err := openObserved(c, board, key, m, sup, k.Sales(jobsProfile), w, goods, log)
	if err != nil {
		return err
	}
	defer seen.close()

	cfg.Events = func(e provider.JobEvent) {
		board.Event(e)
		tell.event(e)
	}
	p, err := provider.New(cfg)
	if err != nil {
		return advice.Usage("", "%w", err)
	}
	desk.seller = p
	tell.ready(key.PublicKey())
	g, gctx := errgroup.WithContext(ctx)
	last, hangUp := context.WithCancel(context.WithoutCancel(ctx)) // until the provider has said goodbye
	defer hangUp()

	g.Go(func() error { return m.Serve(last) })
	g.Go(func() error { return key.Serve(last) })
	g.Go(func() error { return seen.serve(gctx) })
	g.Go(func() error { return seen.node.Probe(gctx) })
	g.Go(func() error { return tell.watchRelays(gctx, m.Pool) })
	g.Go(func() error { return goods.serve(gctx) })
	g.Go(func() error { return stopped(gctx, agents.Serve(gctx, c.controlSocket())) })
	g.Go(func() error {
		defer hangUp()
		return stopped(gctx, p.Serve(gctx))
	})
	g.Go(func() error { return pruneHourly(gctx, k, log) })
	g.Go(func() error { return people.Serve(gctx, reread, tell.say, build) })
	err = g.Wait()
	if errors.Is(err, provider.ErrDrained) || errors.Is(err, provider.ErrDrainCut) {
		return drained(c, tell, err)
	}
	if ctx.Err() != nil {
		return nil
	}

	return err
}

// drained ends a run that took no further jobs: the next takes none either until
// it is told to.
func drained(c *Node, tell *SaleLog, end error) error {
	how := "drained: every job has ended"
	if errors.Is(end, provider.ErrDrainCut) {
		how = "drained: the time is up; what is open goes on at the next run"
	}
	tell.say("%s; "+advice.Resume+" takes jobs again at the next run", how)
	if c.Admission().Word() != provider.AdmissionDraining {
		return nil // resumed meanwhile
	}
	return c.Admission().Set(provider.AdmissionPaused, time.Time{})
}

// pruneHourly deletes what the journal need not keep: of the organism's threads,
// as their profiles say. What paid jobs leave is kept.
func pruneHourly(ctx context.Context, k *store.Store, log *slog.Logger) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()

	for {
		if _, err := k.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Warn("prune the journal", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// stopped makes an early nil end the group too.
func stopped(ctx context.Context, err error) error {
	if err == nil && ctx.Err() == nil {
		return context.Canceled
	}
	return err
}
