package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
)

// node is a set-up of this machine: what the configuration says, and what was found
// out here.
type node struct {
	*config.Config
	version string // of the program
	log     *slog.Logger
	// level is how firmly the sandbox confines jobs here; empty before the node has
	// found it out, and where it cannot.
	level sandbox.Level
}

func newNode(c *config.Config, version string, log *slog.Logger) *node {
	return &node{Config: c, version: version, log: log}
}

// loadNode reads the configuration of a node.
func loadNode(file, version string, log *slog.Logger) (*node, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return newNode(c, version, log), nil
}

// stopTime is how long agents get to end when the node stops.
const stopTime = 10 * time.Second

// timeLeft is the time until ctx's deadline; 0 without one.
func timeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Until(end), time.Millisecond)
	}
	return 0
}

// runProvider is a provider's whole life: open, serve until ctx ends, close.
// tell hears once the agents have registered and selling begins, and what
// happens then. A signal of reread has the organism read again.
func runProvider(ctx context.Context, c *node, log *slog.Logger, tell *teller, reread <-chan os.Signal) (err error) {
	key, err := openSigner(c.Config, "provider", log)
	if err != nil {
		return err
	}
	secret, err := rootSecret(c.Path(c.Identity.RootSecretFile))
	if err != nil {
		return err
	}
	dir := c.DataDir("provider")
	k, err := kernel.Open(ctx, dir, kernel.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, k.Close()) }()

	pinned, err := c.followPin(ctx, k)
	if err != nil {
		return err
	}
	w, closeWallet, err := openWallet(ctx, c.Config, c.Provider.Wallet, "provider", log)
	if err != nil {
		return err
	}
	defer closeWallet()
	if err := checkRights(ctx, w, "provider", c.Provider.Wallet); err != nil {
		return err
	}
	m, err := newMarket(c.Config, key, 1, log)
	if err != nil {
		return err
	}
	people := &society{k: k, told: &told{}, log: log, version: c.version}
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
	offers, unpaid, less, err := payable(ctx, w, c.Offers())
	if err != nil {
		return advice.Hint(err, walletHint(err, "provider", c.Provider.Wallet))
	}
	for _, why := range less {
		tell.say("%s", why)
	}
	goods.unpaid = unpaid
	open, err := k.ProviderStore(jobsProfile).OpenJobs(ctx)
	if err != nil {
		return err
	}
	if err := goods.check(ctx, len(open)); err != nil {
		return err
	}
	build := func(ctx context.Context) error { return people.build(ctx, c.Config, agents, sup) }
	if err := people.start(ctx, c.Config, build); err != nil {
		return err
	}
	if err := people.endInterrupted(ctx); err != nil {
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
		cfg.Wallet, cfg.Refunds, cfg.LeastMsats = w, refunds(c.Config, w), leastMsats(c.Config)
		if cfg.MakeInvoice, err = makerOf(ctx, w); err != nil {
			return advice.Hint(err, walletHint(err, "provider", c.Provider.Wallet))
		}
	}
	board, err := boardOf(ctx, cfg)
	if err != nil {
		return err
	}
	seen, err := openObserved(c, board, key, m, sup, k.ProviderStore(jobsProfile), w, goods.offers, log)
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
	g.Go(func() error { return key.serve(last) })
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
	g.Go(func() error { return people.serve(gctx, reread, tell.say, build) })
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
func drained(c *node, tell *teller, end error) error {
	how := "drained: every job has ended"
	if errors.Is(end, provider.ErrDrainCut) {
		how = "drained: the time is up; what is open goes on at the next run"
	}
	tell.say("%s; lightwork provider resume takes jobs again at the next run", how)
	if c.admission() != provider.AdmissionDraining {
		return nil // resumed meanwhile
	}
	return c.setAdmission(provider.AdmissionPaused, time.Time{})
}

// pruneHourly deletes what the journal need not keep: of the organism's threads,
// as their profiles say. What paid jobs leave is kept.
func pruneHourly(ctx context.Context, k *kernel.Kernel, log *slog.Logger) error {
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

// socketDir is where agents' sockets live: in the data folder, or where that
// path is too long for a socket address, in a folder of its own under the
// system's temporary one.
func socketDir(dataDir string) string {
	dir := filepath.Join(dataDir, "run")
	const most = 90
	if abs, err := filepath.Abs(dir); err == nil && len(abs) <= most {
		return abs
	}
	return socketDirIn(os.TempDir(), dir)
}

// socketDirIn is the folder in base that stands for dir.
func socketDirIn(base, dir string) string {
	return filepath.Join(base, "lightwork-"+hashing.Bytes([]byte(dir)).Hex()[:16])
}
