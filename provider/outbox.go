package provider

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// outbox brings queued events to the relays. The store is the queue; send only
// saves the wait until the next look at it.
type outbox struct {
	store  Store
	market Market
	signer Signer
	log    *slog.Logger
	// before makes true what a result event says; it is not published until then.
	before func(ctx context.Context, requestID string, result nostrEvent) error
	// told is called with the answers to a job's result, the relays' or the signer's
	// refusal. They are recorded by then, unless they end a free job.
	told func(requestID string, answers []Ack)
	// failed is told of each error of the store's in keeping something.
	failed func(err error)
	tell   func(JobEvent)

	// elsewhere names further relays that the buyer of a request reads. They are
	// offered its events once: no stranger makes us knock at a door for days.
	elsewhere *elsewhere

	fresh chan OutEvent
	brief chan func(context.Context) (nostrEvent, error)
	// unsigned wait for a remote signer.
	unsigned chan unsigned

	couriers sync.WaitGroup
	errands  chan struct{} // one place for each courier on its way
	// strangers are those of them that keys get which are no customers: a relay
	// that they name can hold a courier up until its time is over.
	strangers chan struct{}
	customer  func(ctx context.Context, key string) func() bool
	brought   *recent // event ids with the relay they were brought to

	mu       sync.Mutex
	inflight map[string]bool // by event id
	gathered []Ack           // that wait for a commit
	due      chan struct{}   // cap 1: something was gathered
	// offering has the results that are being uploaded or offered, with what stops
	// their uploads; withdrawn those that are to be offered no more.
	offering  map[string]context.CancelFunc
	withdrawn *recent
	offered   chan struct{} // closed, and made anew, when one has been
}

const (
	outboxWorkers = 64
	outboxRetry   = 5 * time.Second
	outboxAge     = 7 * 24 * time.Hour
	outboxBatch   = 256
	errandsMax    = 16

	// blobsName stands for the blob servers among those who answer to an event.
	blobsName = "blob servers"
)

func newOutbox(s Store, m Market, elsewhere *elsewhere, signer Signer, log *slog.Logger, before func(context.Context, string, nostrEvent) error, told func(string, []Ack), failed func(error), customer func(context.Context, string) func() bool, tell func(JobEvent)) *outbox {
	return &outbox{
		store: s, market: m, signer: signer, log: log, before: before, told: told, failed: failed, tell: tell,
		fresh: make(chan OutEvent, 4*outboxBatch), brief: make(chan func(context.Context) (nostrEvent, error), 256),
		unsigned: make(chan unsigned, 4*outboxBatch), inflight: map[string]bool{}, due: make(chan struct{}, 1),
		errands: make(chan struct{}, errandsMax), strangers: make(chan struct{}, forStrangers(errandsMax)), customer: customer, brought: newRecent(16 << 10),
		elsewhere: elsewhere, offering: map[string]context.CancelFunc{}, withdrawn: newRecent(elsewhereJobs), offered: make(chan struct{}),
	}
}

// toRelays offers an event to our relays and tells what they said.
func (o *outbox) toRelays(ctx context.Context, ev nostrEvent) []Ack {
	began := time.Now()
	acks := o.market.Publish(ctx, ev)
	o.tell(PublicationEvent{ev.Kind, time.Since(began), acks})
	return acks
}

// send offers events that were just queued; a full channel leaves them to the
// next look at the store.
func (o *outbox) send(events ...OutEvent) {
	for _, ev := range events {
		select {
		case o.fresh <- ev:
		default:
			return
		}
	}
}

// offer publishes something that may be lost (partial output).
func (o *outbox) offer(make func(context.Context) (nostrEvent, error)) {
	select {
	case o.brief <- make:
	default:
	}
}

func (o *outbox) serve(ctx context.Context) error {
	workers := new(errgroup.Group)
	workers.SetLimit(outboxWorkers)
	signers := new(errgroup.Group)
	o.serveUnsigned(ctx, signers)
	var gathering sync.WaitGroup
	gathering.Go(func() { o.serveGathered(ctx) })
	defer func() {
		_, _ = workers.Wait(), signers.Wait()
		o.couriers.Wait()
		gathering.Wait()
		if err := o.record(context.WithoutCancel(ctx)); err != nil {
			o.log.Error("record relay answers", "err", err)
		}
	}()
	workers.Go(func() error { o.serveBrief(ctx); return nil })
	tick := time.NewTicker(outboxRetry)
	defer tick.Stop()
	o.retry(ctx, workers)
	for {
		select {
		case ev := <-o.fresh:
			o.publish(ctx, workers, ev)
		case <-tick.C:
			o.retry(ctx, workers)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *outbox) serveBrief(ctx context.Context) {
	for {
		select {
		case make := <-o.brief:
			ev, err := make(ctx)
			if err == nil {
				err = o.signBrief(ctx, &ev)
			}
			if err != nil {
				request := ""
				if t := ev.Tags.Find("e"); t != nil {
					request = t[1]
				}
				o.log.Warn("partial output lost", "request", request, "err", err)
				continue
			}
			o.toRelays(ctx, ev)
		case <-ctx.Done():
			return
		}
	}
}

// retry publishes what some relay has not confirmed and is due.
func (o *outbox) retry(ctx context.Context, workers *errgroup.Group) {
	due, err := o.store.DueEvents(ctx, outboxAge, outboxBatch)
	if err != nil {
		if ctx.Err() == nil {
			o.log.Error("read outbox", "err", err)
		}
		return
	}
	for _, ev := range due {
		o.publish(ctx, workers, ev.OutEvent)
	}
}

func (o *outbox) publish(ctx context.Context, workers *errgroup.Group, out OutEvent) {
	o.mu.Lock()
	busy := o.inflight[out.EventID]
	o.inflight[out.EventID] = true
	o.mu.Unlock()
	if busy {
		return
	}
	ev, err := out.Parsed()
	if err != nil {
		o.log.Error("queued event unreadable", "request", out.RequestID, "event", out.EventID, "err", err)
		return // and stays in flight: it will not get better
	}
	if out.Sig != "" {
		ev.Sig = out.Sig
	}
	if ev.Sig == "" {
		o.later(out, ev)
		return
	}
	workers.Go(func() error {
		if gathered := o.publishOne(ctx, out, ev); !gathered {
			o.landed(out.EventID)
		}
		return nil
	})
}

// landed notes that an event is with nobody: the next look at the store finds
// it, if it is still pending.
func (o *outbox) landed(eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.inflight, eventID)
}

// publishOne offers an event, and reports whether what was said of it waits to be
// recorded with others.
func (o *outbox) publishOne(ctx context.Context, out OutEvent, ev nostrEvent) (gathered bool) {
	isResult := ev.Kind >= kinds.FirstRequest+kinds.ResultOffset && ev.Kind <= kinds.LastRequest+kinds.ResultOffset && out.RequestID != ""
	publish := o.toRelays
	if isResult {
		uploading, stop := context.WithCancel(ctx)
		defer stop()
		if !o.beginOffer(out.EventID, stop) {
			return false
		}
		defer o.endOffer(out.EventID)
		if err := o.before(uploading, out.RequestID, ev); err != nil {
			o.notReady(ctx, out, err)
			return false
		}
		if o.withdrawn.has(out.EventID) {
			return false
		}
		publish = o.insist
	}
	acks := publish(ctx, ev)
	if oksOf(out.EventID, acks) > 0 && out.RequestID != "" {
		// Only now: what none of ours has taken could be all that a buyer gets, and
		// its money would go back.
		o.bring(ctx, out.RequestID, ev)
	}
	if ctx.Err() != nil {
		return false
	}
	for _, a := range acks {
		if !a.OK {
			o.log.Warn("relay did not take event", "request", out.RequestID, "relay", a.Relay, "event", out.EventID, "message", a.Message)
		}
	}
	switch {
	case !isResult:
		o.gather(acks)
		return len(acks) > 0
	case out.Unpaid && oksOf(out.EventID, acks) >= out.Required:
		o.gather(acks)
		o.told(out.RequestID, acks)
		return true
	}
	if err := o.record(ctx, acks...); err != nil {
		o.log.Error("record relay answers", "request", out.RequestID, "event", out.EventID, "err", err)
		o.failed(err)
		return false
	}
	o.told(out.RequestID, acks) // the one event that its job waits for
	return false
}

// notReady says why a result is not offered yet. One of which blob servers refuse a
// part for what it is waits for nothing.
func (o *outbox) notReady(ctx context.Context, out OutEvent, err error) {
	if ctx.Err() != nil || o.withdrawn.has(out.EventID) {
		return
	}
	o.log.Warn("result waits, trying again", "request", out.RequestID, "in", outboxRetry, "err", err)
	if !errors.Is(err, ErrBlobRefused) {
		return
	}
	no := Ack{EventID: out.EventID, Relay: blobsName, Message: err.Error(), At: time.Now().UTC()}
	if err := o.record(ctx, no); err != nil {
		o.log.Error("record the blob servers' answer", "request", out.RequestID, "err", err)
		o.failed(err)
		return
	}
	o.told(out.RequestID, []Ack{no})
}

// beginOffer reports whether a result may be offered. stop ends its uploads.
func (o *outbox) beginOffer(eventID string, stop context.CancelFunc) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.withdrawn.has(eventID) {
		return false
	}
	o.offering[eventID] = stop
	return true
}

func (o *outbox) endOffer(eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.offering, eventID)
	close(o.offered)
	o.offered = make(chan struct{})
}

// withdraw has a result offered no more. When it returns, no relay is about to get
// it, and the answers of those that it was offered to are known.
func (o *outbox) withdraw(ctx context.Context, eventID string) error {
	o.withdrawn.add(eventID)
	for {
		o.mu.Lock()
		stop, busy := o.offering[eventID]
		offered := o.offered
		o.mu.Unlock()
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

// restore takes a withdrawal back.
func (o *outbox) restore(eventID string) { o.withdrawn.remove(eventID) }

// bring takes an event to the buyer's own relays, once one of ours has it.
func (o *outbox) bring(ctx context.Context, requestID string, ev nostrEvent) {
	buyer, known := o.elsewhere.buyer(requestID)
	if !known {
		return
	}
	leave, ok := o.errand(o.customer(ctx, buyer))
	if !ok {
		return // too many are on their way: ours have it
	}
	o.couriers.Go(func() {
		defer leave()
		var all sync.WaitGroup
		for _, url := range o.elsewhere.of(ctx, requestID) {
			if o.brought.add(ev.ID + url) {
				all.Go(func() { o.bringTo(ctx, url, ev) })
			}
		}
		all.Wait()
	})
}

// errand takes a place for a courier, if there is one for this buyer.
func (o *outbox) errand(customer func() bool) (leave func(), ok bool) {
	needs := []chan struct{}{o.strangers, o.errands}
	if len(o.strangers) == cap(o.strangers) && customer() {
		needs = needs[1:]
	}
	for i, places := range needs {
		select {
		case places <- struct{}{}:
		default:
			release(needs[:i])
			return nil, false
		}
	}
	return func() { release(needs) }, true
}

// release gives a place of each back.
func release(taken []chan struct{}) {
	for _, places := range taken {
		<-places
	}
}

func (o *outbox) bringTo(ctx context.Context, url string, ev nostrEvent) {
	if a := o.market.Bring(ctx, url, ev); !a.OK && ctx.Err() == nil {
		o.log.Info("the buyer's relay did not take event", "relay", url, "event", ev.ID, "message", a.Message)
	}
}
