package node

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/node/roles"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// providerRole sells.
type providerRole struct {
	*core
	desk *debtDesk

	// Of a start; Stop closes them.
	key    keys.Signer
	market *exchange.Market
	goods  *stock
	seen   *observed
	seller *provider.Provider
	wallet wallets.Wallet // nil without one
	closes []func()

	// kept are the offers that were read again while a provider ran: a further start of
	// the same node sells at no older prices. nil: none were.
	kept atomic.Pointer[[]config.Offer]
}

// Start implements roles.Role. It opens the wallet first, and asks who can do what is on
// offer before anything is announced.
func (r *providerRole) Start(ctx context.Context) (err error) {
	defer func() { err = wallets.Trouble(err, "provider", r.Provider.Wallet) }()

	c := r.copied()
	if r.key, err = keys.Open(c.Config, "provider", r.log); err != nil {
		return err
	}
	if err := r.mayStart(ctx); err != nil {
		return err
	}
	secret, err := keys.RootSecret(c.Path(c.Identity.RootSecretFile))
	if err != nil {
		return err
	}
	pinned, err := followPin(ctx, c, r.k)
	if err != nil {
		return err
	}
	w, err := r.openWallet(ctx, c)
	if err != nil {
		return err
	}
	if r.market, err = newMarket(c.Config, r.key, 1, r.log); err != nil {
		return err
	}

	routes, err := routesOf(c.Config)
	if err != nil {
		return err
	}
	run, err := newRunner(r.k, r.sup, routes, c.jobsJournal(), r.key.PublicKey(), filepath.Join(c.DataDir("provider"), "runs"), r.log)
	if err != nil {
		return err
	}
	offers, err := r.look(ctx, c, routes, w)
	if err != nil {
		return err
	}

	cfg, err := providerConfigOf(c, r.key, r.k, r.market, run, r.log)
	if err != nil {
		return err
	}
	if err := checkPin(pinned, cfg.Policy); err != nil {
		return err
	}
	cfg.Hardware, cfg.RootSecret, cfg.Offers = hardwareHere(ctx), secret, offers
	cfg.Withdrawn, cfg.Takes = r.goods.withdrawn, r.goods.takes
	if w != nil {
		cfg.Wallet, cfg.Refunds, cfg.LeastMsats = w, wallets.Refunds(c.Config, w), wallets.LeastMsats(c.Config)
		if cfg.MakeInvoice, err = wallets.MakerOf(ctx, w); err != nil {
			return advice.Hint(err, wallets.Hint(err, "provider", c.Provider.Wallet))
		}
	}

	return r.makeSeller(ctx, c, cfg, w)
}

// copied is the node as this start changes it: a pinned policy has prices of its own.
func (r *providerRole) copied() *Node {
	conf, c := *r.Config, *r.Node
	c.Config = &conf
	if offers := r.kept.Load(); offers != nil {
		c.Provider.Offers = *offers
	}
	return &c
}

func (r *providerRole) openWallet(ctx context.Context, c *Node) (wallets.Wallet, error) {
	w, closeWallet, err := wallets.Open(ctx, c.Config, c.Provider.Wallet, "provider", r.log)
	if err != nil {
		return nil, err
	}
	r.closes = append(r.closes, closeWallet)
	return w, wallets.CheckRights(ctx, w, "provider", c.Provider.Wallet)
}

// look finds out which offers can be done and be paid for; it returns them as they are
// to be sold.
func (r *providerRole) look(ctx context.Context, c *Node, routes map[string]route, w wallets.Wallet) (offers []provider.Offer, err error) {
	if r.goods, err = newStock(c, r.agents, r.sup, routes, r.market.TakesResults, r.tell); err != nil {
		return nil, err
	}
	offers, unpaid, less, err := wallets.Payable(ctx, w, c.Offers())
	if err != nil {
		return nil, advice.Hint(err, wallets.Hint(err, "provider", c.Provider.Wallet))
	}
	for _, why := range less {
		r.tell.say("%s", why)
	}

	r.goods.setUnpaid(unpaid)
	open, err := r.k.Sales(jobsProfile).OpenJobs(ctx)
	if err != nil {
		return nil, err
	}
	return offers, r.goods.check(ctx, len(open))
}

// makeSeller makes the provider, and what shows it.
func (r *providerRole) makeSeller(ctx context.Context, c *Node, cfg provider.Config, w wallets.Wallet) error {
	r.wallet = w
	board, err := boardOf(ctx, cfg)
	if err != nil {
		return err
	}
	if r.seen, err = openObserved(c, board, r.key, r.market, r.sup, r.k.Sales(jobsProfile), w, r.goods, r.log); err != nil {
		return err
	}
	r.closes = append(r.closes, r.seen.close)

	cfg.Events = func(e provider.JobEvent) {
		board.Event(e)
		r.tell.event(e)
	}
	if r.seller, err = provider.New(cfg); err != nil {
		return advice.Usage("", "%w", err)
	}
	r.desk.market.Store(r.market)
	r.desk.sale.Store(&sale{
		c: c, began: r.Config, seller: r.seller, wallet: w, goods: r.goods, policy: cfg.Policy,
		tell: r.tell, keep: func(offers []config.Offer) { r.kept.Store(&offers) },
	})
	r.tell.ready(r.key.PublicKey())
	return nil
}

// Serve implements roles.Role. The relays stay connected until the provider has said
// goodbye.
func (r *providerRole) Serve(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	last, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()

	g.Go(func() error { return r.market.Serve(last) })
	g.Go(func() error { return r.key.Serve(last) })
	g.Go(func() error { return r.seen.serve(gctx) })
	g.Go(func() error { return r.seen.node.Probe(gctx) })
	g.Go(func() error {
		return r.serveAlerts(gctx, &watch{c: r.Node, node: r.seen.node, sold: r.k.Sales(jobsProfile), wallet: r.wallet}, r.key, r.market, r.log)
	})
	g.Go(func() error { return r.tell.watchRelays(gctx, r.market.Pool) })
	g.Go(func() error { return r.goods.serve(gctx) })
	g.Go(func() error {
		defer hangUp()
		return stopped(gctx, r.seller.Serve(gctx))
	})

	err := g.Wait()
	if errors.Is(err, provider.ErrDrained) || errors.Is(err, provider.ErrDrainCut) {
		return endOfDrain(r.Node, r.tell, err)
	}
	return err
}

// Stop implements roles.Role.
func (r *providerRole) Stop(context.Context) error {
	r.desk.sale.Store(nil)
	r.desk.market.Store(nil)
	for i := len(r.closes) - 1; i >= 0; i-- {
		r.closes[i]()
	}
	r.closes = nil
	return nil
}

// Lacks says why no jobs are taken, or which are withdrawn.
func (r *providerRole) Lacks() string {
	if a := r.Admission().Word(); a != provider.AdmissionOpen {
		return cmp.Or(r.Admission().PausedWhy(), string(a)+": no new jobs are taken")
	}
	why := ""
	for _, o := range r.goods.offers() {
		if o.Withdrawn != "" && why == "" {
			why = o.Schema + " is withdrawn: " + o.Withdrawn
		}
	}
	return why
}

// vital reports that money is under way: a payment that is held, or a refund that is owed,
// is lost if nobody goes on with it in time. The node then ends, so that whoever watches it
// hears of it.
func (r *providerRole) vital(ctx context.Context, failed error) bool {
	if errors.Is(failed, provider.ErrStoreFailed) {
		return true
	}
	left, err := provider.LeftOpen(ctx, r.k.Sales(jobsProfile))
	return err != nil || len(left.Jobs)+len(left.Refunds) > 0
}

// mayStart refuses a key that has ended, unless work is open under it: that is all that
// the provider then goes on with.
func (r *providerRole) mayStart(ctx context.Context) error {
	ended := keys.CheckAlive(r.Config, "provider", r.key.PublicKey())
	if ended == nil {
		return nil
	}
	left, err := provider.LeftOpen(ctx, r.k.Sales(jobsProfile))
	if err != nil || len(left.Jobs)+len(left.Refunds) == 0 {
		return cmp.Or(err, ended)
	}
	r.tell.say("the key has ended: only what is open goes on, and no job is taken")
	return r.Admission().Set(provider.AdmissionDraining, time.Time{})
}

// endOfDrain ends a run that took no further jobs: the next takes none either until
// it is told to.
func endOfDrain(c *Node, tell *SaleLog, end error) error {
	how := "drained: every job has ended"
	if errors.Is(end, provider.ErrDrainCut) {
		how = "drained: the time is up; what is open goes on at the next run"
	}
	tell.say("%s; "+advice.Resume+" takes jobs again at the next run", how)

	finished := &roles.Finished{Why: how}
	if c.Admission().Word() != provider.AdmissionDraining {
		return finished // resumed meanwhile
	}
	return cmp.Or(c.Admission().Set(provider.AdmissionPaused, time.Time{}), error(finished))
}
