// Package publish brings a provider's events to relays, and the blobs that they name to
// blob servers. It makes and signs these events, and encrypts what is for one buyer
// alone. It knows nothing of how a job goes.
package publish

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/slots"
)

// Signer makes events with the provider's key.
type Signer interface {
	PublicKey() string // x-only hex
	Sign(ctx context.Context, ev *nostr.Event) error
}

// Market is the relays, and the blob servers beside them.
type Market interface {
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	Publish(ctx context.Context, ev nostr.Event) []job.Ack
	Forward(ctx context.Context, url string, ev nostr.Event) job.Ack
	Relays() []string
	Upload(ctx context.Context, data []byte, mime string) error
}

// Store keeps the queue of events, and the blobs.
type Store interface {
	// DueEvents lists queued events younger than maxAge that are to be offered again now,
	// the longest due first: at once until a relay has answered, then ever more rarely.
	DueEvents(ctx context.Context, maxAge time.Duration, limit int) ([]job.Pending, error)
	// SetSignature records the signature of an event that was queued without one.
	SetSignature(ctx context.Context, eventID, sig string) error
	// AddAcks records what relays said.
	AddAcks(ctx context.Context, acks ...job.Ack) error
	// Content is a blob.
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
}

// Config is what a Publisher needs.
type Config struct {
	Store  Store
	Market Market
	Signer Signer
	// SignLater leaves events unsigned until they go out.
	SignLater bool
	Cipher    Cipher // nil: nothing is encrypted
	Log       *slog.Logger
	// HasPaid reports whether a key has the slots that unpaid buyers do not get.
	HasPaid func(ctx context.Context, key string) bool
	// OnAck is called with the answers to a job's result, the relays' or the signer's
	// refusal. They are recorded by then, unless they end a free job.
	OnAck func(requestID string, answers []job.Ack)
	// OnPublished is told of every event that relays were offered.
	OnPublished func(job.PublicationEvent)
	// OnStoreError is told of each error of the store's in keeping something.
	OnStoreError func(err error)
}

// Publisher brings queued events to the relays. The store is the queue; Send only
// saves the wait until the next look at it.
type Publisher struct {
	*private
	*uploader

	cfg Config
	log *slog.Logger

	// inbox names further relays that the buyer of a request reads. They are
	// offered its events once: no stranger makes us knock at a door for days.
	inbox *inboxRelays

	fresh    chan job.OutEvent
	brief    chan func(context.Context) (nostr.Event, error)
	unsigned chan unsigned // they wait for a remote signer

	forwarding sync.WaitGroup
	// forwards has a slot for each event on its way to buyers' relays: one that they
	// name can hold it up until its time is over.
	forwards  *slots.Pool
	forwarded *recent.Set // event ids with the relay they were forwarded to

	mu       sync.Mutex
	inflight map[string]bool // by event id
	gathered []job.Ack       // that wait for a commit
	due      chan struct{}   // cap 1: something was gathered
	// offering has the results that are being uploaded or offered, with what stops
	// their uploads; withdrawn those that are to be offered no more.
	offering  map[string]context.CancelFunc
	withdrawn *recent.Set
	offered   chan struct{} // closed, and made anew, when one has been
}

const (
	workersMax  = 64
	retryEvery  = 5 * time.Second
	batch       = 256
	forwardsMax = 16
	// uploadsAtOnce is what a blob server of ours takes of one key.
	uploadsAtOnce = 8

	// MaxAge is how long an event is offered.
	MaxAge = 7 * 24 * time.Hour
	// BlobServers stands for the blob servers among those who answer to an event.
	BlobServers = "blob servers"
)

// New makes a Publisher. Nothing goes out until Serve.
func New(cfg Config) *Publisher {
	p := &Publisher{
		cfg: cfg, log: cfg.Log, inbox: newInboxRelays(cfg.Market),
		fresh: make(chan job.OutEvent, 4*batch), brief: make(chan func(context.Context) (nostr.Event, error), 256),
		unsigned: make(chan unsigned, 4*batch), inflight: map[string]bool{}, due: make(chan struct{}, 1),
		forwards: slots.New(forwardsMax), forwarded: recent.New(16 << 10),
		offering: map[string]context.CancelFunc{}, withdrawn: recent.New(readersMax), offered: make(chan struct{}),
		private: &private{cipher: cfg.Cipher}, uploader: newUploader(cfg),
	}
	if cfg.Signer != nil {
		p.key = cfg.Signer.PublicKey()
	}
	return p
}

// Publish offers an event to our relays, once, and says what they answered.
func (p *Publisher) Publish(ctx context.Context, ev nostr.Event) []job.Ack {
	began := time.Now()
	acks := p.cfg.Market.Publish(ctx, ev)
	p.cfg.OnPublished(job.PublicationEvent{Kind: ev.Kind, Took: time.Since(began), Acks: acks})
	return acks
}

// Send offers events that were just queued; a full channel leaves them to the
// next look at the store.
func (p *Publisher) Send(events ...job.OutEvent) {
	for _, ev := range events {
		select {
		case p.fresh <- ev:
		default:
			return
		}
	}
}

// Offer publishes something that may be lost (partial output).
func (p *Publisher) Offer(make func(context.Context) (nostr.Event, error)) {
	select {
	case p.brief <- make:
	default:
	}
}

// Serve publishes until ctx ends.
func (p *Publisher) Serve(ctx context.Context) error {
	workers := new(errgroup.Group)
	workers.SetLimit(workersMax)
	signers := new(errgroup.Group)
	p.serveUnsigned(ctx, signers)
	var gathering sync.WaitGroup
	gathering.Go(func() { p.serveGathered(ctx) })
	defer func() {
		_, _ = workers.Wait(), signers.Wait()
		p.forwarding.Wait()
		gathering.Wait()
		if err := p.record(context.WithoutCancel(ctx)); err != nil {
			p.log.Error("record relay answers", "err", err)
		}
	}()

	workers.Go(func() error { p.serveBrief(ctx); return nil })
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()

	p.retry(ctx, workers)
	for {
		select {
		case ev := <-p.fresh:
			p.publish(ctx, workers, ev)
		case <-tick.C:
			p.retry(ctx, workers)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Publisher) serveBrief(ctx context.Context) {
	for {
		select {
		case make := <-p.brief:
			ev, err := make(ctx)
			if err == nil {
				err = p.SignNow(ctx, &ev)
			}
			if err != nil {
				request := ""
				if t := ev.Tags.Find("e"); t != nil {
					request = t[1]
				}
				p.log.Warn("partial output lost", "request", request, "err", err)
				continue
			}

			p.Publish(ctx, ev)
		case <-ctx.Done():
			return
		}
	}
}

// retry publishes what some relay has not confirmed and is due.
func (p *Publisher) retry(ctx context.Context, workers *errgroup.Group) {
	due, err := p.cfg.Store.DueEvents(ctx, MaxAge, batch)
	if err != nil {
		if ctx.Err() == nil {
			p.log.Error("read outbox", "err", err)
		}
		return
	}
	for _, ev := range due {
		p.publish(ctx, workers, ev.OutEvent)
	}
}

func (p *Publisher) publish(ctx context.Context, workers *errgroup.Group, out job.OutEvent) {
	p.mu.Lock()
	busy := p.inflight[out.EventID]
	p.inflight[out.EventID] = true
	p.mu.Unlock()
	if busy {
		return
	}

	ev, err := out.Parsed()
	if err != nil {
		p.log.Error("queued event unreadable", "request", out.RequestID, "event", out.EventID, "err", err)
		return // and stays in flight: it will not get better
	}
	if out.Sig != "" {
		ev.Sig = out.Sig
	}
	if ev.Sig == "" {
		p.later(out, ev)
		return
	}
	workers.Go(func() error {
		if gathered := p.publishOne(ctx, out, ev); !gathered {
			p.landed(out.EventID)
		}
		return nil
	})
}

// landed notes that an event is with nobody: the next look at the store finds
// it, if it is still pending.
func (p *Publisher) landed(eventID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inflight, eventID)
}

// publishOne offers an event, and reports whether what was said of it waits to be
// recorded with others.
func (p *Publisher) publishOne(ctx context.Context, out job.OutEvent, ev nostr.Event) (gathered bool) {
	isResult := ev.Kind >= kinds.FirstRequest+kinds.ResultOffset && ev.Kind <= kinds.LastRequest+kinds.ResultOffset && out.RequestID != ""
	publish := p.Publish
	if isResult {
		uploading, stop := context.WithCancel(ctx)
		defer stop()

		if !p.beginOffer(out.EventID, stop) {
			return false
		}
		defer p.endOffer(out.EventID)

		if err := p.uploadFirst(uploading, out.RequestID, ev); err != nil {
			p.notReady(ctx, out, err)
			return false
		}
		if p.withdrawn.Has(out.EventID) {
			return false
		}

		publish = p.publishUntilAcked
	}

	acks := publish(ctx, ev)
	if OKs(out.EventID, acks) > 0 && out.RequestID != "" {
		// Only now: what none of ours has taken could be all that a buyer gets, and
		// its money would go back.
		p.forward(ctx, out.RequestID, ev)
	}

	if ctx.Err() != nil {
		return false
	}

	for _, a := range acks {
		if !a.OK {
			p.log.Warn("relay did not take event", "request", out.RequestID, "relay", a.Relay, "event", out.EventID, "message", a.Message)
		}
	}

	switch {
	case !isResult:
		p.gather(acks)
		return len(acks) > 0
	case out.Unpaid && OKs(out.EventID, acks) >= out.Required:
		p.gather(acks)
		p.cfg.OnAck(out.RequestID, acks)
		return true
	}

	if err := p.record(ctx, acks...); err != nil {
		p.log.Error("record relay answers", "request", out.RequestID, "event", out.EventID, "err", err)
		p.cfg.OnStoreError(err)
		return false
	}
	p.cfg.OnAck(out.RequestID, acks) // the one event that its job waits for
	return false
}

// notReady says why a result is not offered yet. One of which blob servers refuse a
// part for what it is waits for nothing.
func (p *Publisher) notReady(ctx context.Context, out job.OutEvent, err error) {
	if ctx.Err() != nil || p.withdrawn.Has(out.EventID) {
		return
	}
	p.log.Warn("result waits, trying again", "request", out.RequestID, "in", retryEvery, "err", err)
	if !errors.Is(err, ErrBlobRefused) {
		return
	}
	no := job.Ack{EventID: out.EventID, Relay: BlobServers, Message: err.Error(), At: time.Now().UTC()}
	if err := p.record(ctx, no); err != nil {
		p.log.Error("record the blob servers' answer", "request", out.RequestID, "err", err)
		p.cfg.OnStoreError(err)
		return
	}
	p.cfg.OnAck(out.RequestID, []job.Ack{no})
}

// beginOffer reports whether a result may be offered. stop ends its uploads.
func (p *Publisher) beginOffer(eventID string, stop context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withdrawn.Has(eventID) {
		return false
	}
	p.offering[eventID] = stop
	return true
}

func (p *Publisher) endOffer(eventID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.offering, eventID)
	close(p.offered)
	p.offered = make(chan struct{})
}

// Withdraw has a result offered no more. When it returns, no relay is about to get
// it, and the answers of those that it was offered to are known.
func (p *Publisher) Withdraw(ctx context.Context, eventID string) error {
	p.withdrawn.Add(eventID)

	for {
		p.mu.Lock()
		stop, busy := p.offering[eventID]
		offered := p.offered
		p.mu.Unlock()
		if !busy {
			return nil
		}
		stop()

		select {
		case <-offered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Restore takes a withdrawal back.
func (p *Publisher) Restore(eventID string) { p.withdrawn.Remove(eventID) }

// forward takes an event to the buyer's own relays, once one of ours has it.
func (p *Publisher) forward(ctx context.Context, requestID string, ev nostr.Event) {
	buyer, known := p.inbox.buyer(requestID)
	if !known {
		return
	}
	leave, ok := p.forwards.Try(func() bool { return p.cfg.HasPaid(ctx, buyer) })
	if !ok {
		return // too many are on their way: ours have it
	}

	p.forwarding.Go(func() {
		defer leave()
		var all sync.WaitGroup
		for _, url := range p.inbox.of(ctx, requestID) {
			if p.forwarded.Add(ev.ID + url) {
				all.Go(func() { p.forwardTo(ctx, url, ev) })
			}
		}
		all.Wait()
	})
}

func (p *Publisher) forwardTo(ctx context.Context, url string, ev nostr.Event) {
	if a := p.cfg.Market.Forward(ctx, url, ev); !a.OK && ctx.Err() == nil {
		p.log.Info("the buyer's relay did not take event", "relay", url, "event", ev.ID, "message", a.Message)
	}
}
