package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/flow"
	"github.com/lightwork-market/lightwork/provider/internal/intake"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/receipts"
)

// handlers bounds how many events are read at the same time; they share the store's
// group commits.
const handlers = 64

// Provider is a running seller. Make it with New, run it with Serve.
type Provider struct {
	cfg       Config
	limits    Limits
	kinds     Kinds
	log       *slog.Logger
	key       string
	prices    atomic.Pointer[job.PriceList] // Reprice changes it, New sets it
	repricing sync.Mutex                    // one change of prices at a time

	node     payments.Node // of the wallet, read at start
	gate     *admission.Gate
	pings    *recent.Set // ids of those that were read
	pub      *publish.Publisher
	handling *errgroup.Group
	oldest   time.Time // when the first of the jobs that start resumed was added, or when Serve began
	// listening is closed once a relay serves our subscription; only then is it
	// true that we take jobs, so only then do we announce.
	listening chan struct{}
	announcer *announce.Announcer
	began     time.Time // Serve
	restored  *restore.Checker
	halt      chan error // cap 1: the store failed for good
	refunds   *refund.Refunder
	intake    *intake.Intake
	flow      *flow.Flow
}

// New checks the configuration. Nothing runs until Serve.
func New(cfg Config) (*Provider, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	list, err := cfg.priceList()
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	def(&cfg.Profile.Producer, "lightwork")
	p := &Provider{
		cfg: cfg, limits: cfg.Limits.WithDefaults(), kinds: cfg.Kinds.withDefaults(),
		log: cfg.Log, key: cfg.Signer.PublicKey(),
		pings: recent.New(100_000), handling: new(errgroup.Group),
		halt: make(chan error, 1), listening: make(chan struct{}),
	}
	p.prices.Store(list)
	if len(p.cfg.Access.Of) == 0 {
		p.cfg.Access.Of = []string{p.key}
	}
	p.handling.SetLimit(handlers)

	p.connect()
	p.flow = p.newFlow()
	p.announcer = p.newAnnouncer()
	return p, nil
}

// Serve sells until ctx ends, then stops everything it began and returns nil;
// open jobs go on at the next Serve. ErrDrained ends one that drains; any other error
// means that it could not start, or had to stop.
func (p *Provider) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	p.began = time.Now()
	p.announcer.Begin(p.began)
	if err := p.start(ctx); err != nil {
		ended := ctx.Err() != nil
		stop()
		p.flow.Wait() // those already resumed
		p.pub.WaitAhead()
		p.announcer.Goodbye(ctx)
		if ended {
			return nil // asked to stop before it began
		}
		return err
	}

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.pub.Serve(ctx) })
	g.Go(func() error { return p.announcer.Serve(ctx, p.listening) })
	g.Go(func() error { return p.announcer.ServePresence(ctx, p.listening) })
	g.Go(func() error { return p.refunds.Serve(ctx) })
	g.Go(func() error { return p.serveAdmission(ctx) })
	g.Go(func() error {
		if err := p.restored.Serve(ctx); err != nil {
			return err
		}
		return p.cfg.Market.Listen(ctx, p.filters(), sync.OnceFunc(func() { close(p.listening) }), func(ev nostr.Event) { p.handle(ctx, ev) })
	})
	if p.cfg.Wallet != nil {
		g.Go(func() error { return p.cfg.Wallet.WatchInvoices(ctx, p.flow.NoteInvoice) })
	}
	g.Go(func() error {
		select {
		case err := <-p.halt:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	err := g.Wait()
	stop()
	_ = p.handling.Wait()
	p.intake.Wait()
	p.flow.Wait()
	p.pub.WaitAhead()
	p.announcer.Goodbye(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// start asks and stores what Serve needs to know, and resumes open jobs.
func (p *Provider) start(ctx context.Context) error {
	if p.cfg.Wallet != nil {
		node, err := p.cfg.Wallet.Node(ctx)
		if err != nil {
			return fmt.Errorf("ask the wallet who it is: %w", err)
		}
		p.node = node
	}
	if err := p.cfg.Store.UsePolicy(ctx, p.prices.Load().Policy); err != nil {
		return fmt.Errorf("store the policy manifest: %w", err)
	}
	oldest, err := p.flow.Resume(ctx)
	p.oldest = oldest
	return err
}

// Reprice sells at other prices from now on, under a policy that says so. Job types
// and tools stay as they were, as [Config].Offers has them. What was quoted before ends
// at its own price; relays are told within moments. After an error nothing has changed.
func (p *Provider) Reprice(ctx context.Context, offers []Offer, policy receipts.Policy) error {
	cfg := p.cfg
	cfg.Offers, cfg.Policy = offers, policy
	if err := cfg.checkOffers(); err != nil {
		return err
	}
	list, err := cfg.priceList()
	if err != nil {
		return err
	}

	p.repricing.Lock()
	defer p.repricing.Unlock()

	now := p.prices.Load()
	if list.PolicyID == now.PolicyID {
		return nil
	}
	if len(offers) != len(now.Offers) {
		return errors.New("provider: other prices are of the same job types")
	}
	for _, o := range offers {
		if _, ok := now.Offer(o.SchemaID); !ok {
			return fmt.Errorf("offer %s: is not sold by this provider yet", o.SchemaID)
		}
	}

	// On disk before anybody is quoted under it.
	if err := p.cfg.Store.UsePolicy(ctx, list.Policy); err != nil {
		p.storeTrouble(err)
		return fmt.Errorf("store the policy manifest: %w", err)
	}
	p.prices.Store(list)
	p.log.Info("prices changed", "policy", list.PolicyID)
	return nil
}

// storeTrouble halts the node when the store can no longer commit (P17): a
// node that cannot remember must not take money.
func (p *Provider) storeTrouble(err error) {
	if errors.Is(err, ErrStoreFailed) {
		select {
		case p.halt <- fmt.Errorf("stopped taking jobs: %w", err):
		default:
		}
	}
}

// RetryRefund begins a further attempt to pay a debt, at the operator's word:
// to what is named, or else to where the last attempt went, or the request says.
// The payment is seen through like the first. The wallet's fee limit is the one
// of the configuration, whoever's failure it was.
func (p *Provider) RetryRefund(ctx context.Context, requestID, to string) (Refund, error) {
	return p.refunds.Retry(ctx, requestID, to)
}

// WriteOff ends a debt that the operator has settled with the buyer by other
// means, which the note says. What is left of it is no credit any more, and the
// buyer is told.
func (p *Provider) WriteOff(ctx context.Context, requestID, note string) (msats int64, err error) {
	return p.refunds.WriteOff(ctx, requestID, note)
}

// tell passes an event on to whoever watches this provider.
func (p *Provider) tell(e JobEvent) {
	if p.cfg.Events != nil {
		p.cfg.Events(e)
	}
}
