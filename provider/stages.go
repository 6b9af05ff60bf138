package provider

import (
	"github.com/lightwork-market/lightwork/market/tree"
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
	"github.com/lightwork-market/lightwork/provider/internal/trees"
)

// connect makes what speaks to buyers, relays and wallets for all jobs.
func (p *Provider) connect() {
	cfg := p.cfg
	p.gate = admission.New(admission.Config{
		Store: cfg.Store, Limits: p.limits, Access: p.cfg.Access, Prices: p.prices.Load, Log: p.log, Query: cfg.Market.Query,
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
}

// newFlow makes the stages of a job, what takes jobs through them, and the intake that
// begins them.
func (p *Provider) newFlow() *flow.Flow {
	cfg := p.cfg
	collector := charge.New(charge.Config{
		Store: cfg.Store, Wallet: cfg.Wallet, Publisher: p.pub, Log: p.log, MakeInvoice: cfg.MakeInvoice,
		Tell: p.tell, Leave: p.gate.Leave, Node: func() payments.Node { return p.node },
		Owe: flow.Owe,
		Key: p.key, RootSecret: cfg.RootSecret, ReceiptKind: p.kinds.Receipt, Retention: cfg.Retention,
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
		Key: p.key, RootSecret: cfg.RootSecret, LookupEvery: p.limits.LookupEvery,
		Lifecycle: cfg.Lifecycle.Kinds, HideSession: cfg.Lifecycle.Encrypt, Encrypts: cfg.Cipher != nil,
	})

	kept := p.newTrees()
	jobs := flow.New(flow.Config{
		Store: cfg.Store, Publisher: p.pub, Gate: p.gate, Collector: collector, Executor: executor, Deliverer: deliverer,
		Refunds: p.refunds, Restored: p.restored, Trees: kept, Log: p.log, Tell: p.tell, Key: p.key, Decrypts: cfg.Cipher != nil,
		Runs: p.limits.Runs, QuoteTTL: p.limits.QuoteTTL, LookupEvery: p.limits.LookupEvery, OnStoreError: p.storeTrouble,
	})

	p.intake = intake.New(intake.Config{
		Store: cfg.Store, Gate: p.gate, Collector: collector, Publisher: p.pub, Listen: cfg.Market.Listen, Log: p.log, Tell: p.tell,
		Key: p.key, RequestKinds: p.requestKinds(), Prices: p.prices.Load, Images: cfg.Images,
		Limits: intake.Limits{
			ContextTokens: p.limits.ContextTokens, MemoryMB: p.limits.MemoryMB, CPUs: p.limits.CPUs,
			ClockWindow: p.limits.ClockWindow, Inputs: p.limits.QuoteTTL, LeastMsats: cfg.LeastMsats,
		},
		Encrypts: cfg.Cipher != nil, Withdrawn: cfg.Withdrawn, Takes: cfg.Takes, Trees: kept.Admit,
		WasAnswered: p.restored.WasAnswered, RefundAddress: p.refunds.Address,
		Launch: jobs.Launch, Cancel: jobs.Cancel, OnStoreError: p.storeTrouble,
	})

	return jobs
}

// newTrees makes what brings the files of jobs that are too large for their requests.
func (p *Provider) newTrees() *trees.Trees {
	cfg := trees.Config{Publisher: p.pub, Log: p.log}
	if t := p.cfg.Trees; t != nil {
		cfg.MaxBytes, cfg.Servers, cfg.Dir, cfg.Market = t.MaxBytes, t.Servers, t.Dir, t.Market
	}
	return trees.New(cfg)
}

// treeTerms are what is announced of trees, nil if none are taken.
func (p *Provider) treeTerms() *tree.Terms {
	if p.cfg.Trees == nil {
		return nil
	}
	return &tree.Terms{MaxBytes: p.cfg.Trees.MaxBytes, Servers: p.cfg.Trees.Servers}
}

// newAnnouncer makes what tells the market of this provider.
func (p *Provider) newAnnouncer() *announce.Announcer {
	cfg := p.cfg
	return announce.New(announce.Config{
		Store: cfg.Store, Market: cfg.Market, Publisher: p.pub, Log: p.log,
		Key: p.key, Profile: cfg.Profile, Hardware: cfg.Hardware, RequestKinds: p.requestKinds(), Prices: p.prices.Load,
		Capacity: announce.Capacity{
			MaxConcurrentJobs: p.limits.Concurrent, MaxContextTokens: p.limits.ContextTokens, MaxMemoryMB: p.limits.MemoryMB, MaxCPUs: p.limits.CPUs,
		},
		FreePoW: p.limits.FreePoW, HostImage: cfg.Images.HostDigest, Confinement: cfg.Images.Confinement, Retention: cfg.Retention,
		Encrypts: cfg.Cipher != nil, Lifecycle: cfg.Lifecycle.Kinds, Tree: p.treeTerms(),
		Node:   func() payments.Node { return p.node },
		Paused: func() bool { return p.gate.State() != AdmissionOpen }, Withdrawn: p.withdrawn,
	})
}
