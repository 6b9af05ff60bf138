package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/flow"
	"github.com/lightwork-market/lightwork/provider/internal/intake"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/provider/internal/run"
)

// handlers bounds how many events are read at the same time; they share the store's
// group commits.
const handlers = 64

// Provider is a running seller. Make it with New, run it with Serve.
type Provider struct {
	cfg      Config
	limits   Limits
	kinds    Kinds
	log      *slog.Logger
	key      string
	policy   []byte // the manifest, which policyID is the hash of
	policyID hashing.Digest

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
	policy, err := cfg.Policy.Canonical()
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	def(&cfg.Profile.Producer, "lightwork")
	p := &Provider{
		cfg: cfg, limits: cfg.Limits.WithDefaults(), kinds: cfg.Kinds.withDefaults(),
		log: cfg.Log, key: cfg.Signer.PublicKey(), policy: policy, policyID: hashing.Bytes(policy),
		pings: recent.New(100_000), handling: new(errgroup.Group),
		halt: make(chan error, 1), listening: make(chan struct{}),
	}
	if len(p.cfg.Access.Of) == 0 {
		p.cfg.Access.Of = []string{p.key}
	}
	p.handling.SetLimit(handlers)
	p.gate = admission.New(admission.Config{
		Store: cfg.Store, Limits: p.limits, Access: p.cfg.Access, Offers: cfg.Offers, Log: p.log, Query: cfg.Market.Query,
		State: cfg.Admission, CannotDeliver: func() bool { return p.pub.CannotUpload() },
	})
	p.pub = publish.New(publish.Config{
		Store: cfg.Store, Market: cfg.Market, Signer: cfg.Signer, SignLater: cfg.SignLater, Cipher: cfg.Cipher, Log: p.log,
		HasPaid: p.gate.HasPaid, OnAck: func(requestID string, acks []Ack) { p.flow.NoteAcks(requestID, acks) }, OnStoreError: p.storeTrouble,
		OnPublished: func(e PublicationEvent) { p.tell(e) },
	})
	p.restored = restore.New(restore.Config{
		Store: cfg.Store, Publisher: p.pub, Log: p.log, Query: cfg.Market.Query,
		Key: p.key, RequestKinds: p.requestKinds(), ReceiptKind: p.kinds.Receipt, ClockWindow: p.limits.ClockWindow,
	})
	p.refunds = refund.New(refund.Config{
		Store: cfg.Store, Publisher: p.pub, Log: p.log, Settings: cfg.Refunds, Node: func() payments.Node { return p.node },
		LookupEvery: p.limits.LookupEvery, Tell: p.tell, OnStoreError: p.storeTrouble,
	})
	collector := charge.New(charge.Config{
		Store: cfg.Store, Wallet: cfg.Wallet, Publisher: p.pub, Log: p.log, MakeInvoice: cfg.MakeInvoice,
		Tell: p.tell, Leave: p.gate.Leave, Node: func() payments.Node { return p.node },
		Owe: flow.Owe,
		Key: p.key, RootSecret: cfg.RootSecret, PolicyID: p.policyID, ReceiptKind: p.kinds.Receipt,
		Relays: cfg.Market.Relays, LeastMsats: cfg.LeastMsats,
		Times: charge.Times{
			Postpay: p.limits.PostpayTTL, LookupEvery: p.limits.LookupEvery, HoldMargin: p.limits.HoldMargin,
			Unconfirmed: p.limits.Unconfirmed, Silence: p.limits.Silence,
		},
	})
	executor := run.New(run.Config{
		Store: cfg.Store, Runner: cfg.Runner, Publisher: p.pub, Log: p.log, Tell: p.tell,
		Runs: p.limits.Runs, StartIn: p.limits.QuoteTTL, Key: p.key, Producer: cfg.Profile.Producer, Lifecycle: cfg.Lifecycle.Kinds,
		Node: func() payments.Node { return p.node },
	})
	deliverer := deliver.New(deliver.Config{
		Store: cfg.Store, Market: cfg.Market, Publisher: p.pub, Log: p.log, Tell: p.tell, Leave: p.gate.Leave, Preimage: collector.Preimage,
		Key: p.key, RootSecret: cfg.RootSecret, Policy: p.policy, PolicyID: p.policyID, LookupEvery: p.limits.LookupEvery,
		Lifecycle: cfg.Lifecycle.Kinds, HideSession: cfg.Lifecycle.Encrypt, Encrypts: cfg.Cipher != nil,
	})
	p.flow = flow.New(flow.Config{
		Store: cfg.Store, Publisher: p.pub, Gate: p.gate, Collector: collector, Executor: executor, Deliverer: deliverer,
		Refunds: p.refunds, Restored: p.restored, Log: p.log, Tell: p.tell, Key: p.key, Decrypts: cfg.Cipher != nil,
		Runs: p.limits.Runs, QuoteTTL: p.limits.QuoteTTL, LookupEvery: p.limits.LookupEvery, OnStoreError: p.storeTrouble,
	})
	p.intake = intake.New(intake.Config{
		Store: cfg.Store, Gate: p.gate, Collector: collector, Publisher: p.pub, Listen: cfg.Market.Listen, Log: p.log, Tell: p.tell,
		Key: p.key, RequestKinds: p.requestKinds(), Offers: cfg.Offers, Images: cfg.Images,
		Limits: intake.Limits{
			ContextTokens: p.limits.ContextTokens, MemoryMB: p.limits.MemoryMB, CPUs: p.limits.CPUs,
			ClockWindow: p.limits.ClockWindow, Inputs: p.limits.QuoteTTL, LeastMsats: cfg.LeastMsats,
		},
		Encrypts: cfg.Cipher != nil, Withdrawn: cfg.Withdrawn, Takes: cfg.Takes,
		WasAnswered: p.restored.WasAnswered, RefundAddress: p.refunds.Address,
		Launch: p.flow.Launch, Cancel: p.flow.Cancel, OnStoreError: p.storeTrouble,
	})

	p.announcer = announce.New(announce.Config{
		Store: cfg.Store, Market: cfg.Market, Publisher: p.pub, Log: p.log,
		Key: p.key, Profile: cfg.Profile, Hardware: cfg.Hardware, RequestKinds: p.requestKinds(), Offers: cfg.Offers,
		Capacity: announce.Capacity{
			MaxConcurrentJobs: p.limits.Concurrent, MaxContextTokens: p.limits.ContextTokens, MaxMemoryMB: p.limits.MemoryMB, MaxCPUs: p.limits.CPUs,
		},
		FreePoW: p.limits.FreePoW, HostImage: cfg.Images.HostDigest, Confinement: cfg.Images.Confinement, PolicyID: p.policyID,
		Encrypts: cfg.Cipher != nil, Lifecycle: cfg.Lifecycle.Kinds,
		Node:   func() payments.Node { return p.node },
		Paused: func() bool { return p.gate.State() != AdmissionOpen }, Withdrawn: p.withdrawn,
	})
	return p, nil
}

// Serve sells until ctx ends, then stops everything it began and returns nil;
// open jobs go on at the next Serve. ErrDrained ends one that drains; any other error means it could not start or had
// to stop.
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
	if err := p.cfg.Store.UsePolicy(ctx, p.policy); err != nil {
		return fmt.Errorf("store the policy manifest: %w", err)
	}
	oldest, err := p.flow.Resume(ctx)
	p.oldest = oldest
	return err
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
