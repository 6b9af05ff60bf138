// Package flow takes each job through its stages: it alone knows their order. One
// goroutine, the job's actor, reads where the job stands, does the next step, and repeats.
package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/provider/internal/run"
	"github.com/lightwork-market/lightwork/provider/internal/trees"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/nbd-wtf/go-nostr"
)

// Store keeps how jobs stand.
type Store interface {
	Job(ctx context.Context, requestID string) (job.Job, error)
	// OpenJobs lists the ids of all jobs in a state that is not terminal, oldest first.
	OpenJobs(ctx context.Context) ([]string, error)
	// JobByPaymentHash finds the job an invoice belongs to.
	JobByPaymentHash(ctx context.Context, hash payments.Hash) (job.Job, error)
	// UnknownPayments lists the jobs that ended with CodePaymentUnknown, oldest first,
	// until AddLate has what came for them.
	UnknownPayments(ctx context.Context) (requestIDs []string, err error)
	// Close moves an open job to a terminal state without a receipt (failed,
	// canceled, expired; succeeded for free jobs). The thread ends. credit, if
	// not nil, is recorded as owed, with its refund. ErrRefundTaken. The result of a
	// job that did not succeed is offered to relays no more.
	Close(ctx context.Context, requestID string, to job.State, reason job.Reason, credit *job.Credit, out ...job.OutEvent) error
	// AddLate records what came for a job that has ended without a receipt: c.Msats in
	// all, or 0, of which what is a debt already is not counted twice. tell makes the
	// event that says so. It returns what is newly owed.
	AddLate(ctx context.Context, c job.Credit, tell func(msats int64) (job.OutEvent, error)) (msats int64, err error)
}

// Config is what a Flow needs: its store, and the stages.
type Config struct {
	Store     Store
	Publisher *publish.Publisher
	Gate      *admission.Gate
	Collector *charge.Collector
	Executor  *run.Executor
	Deliverer *deliver.Deliverer
	Refunds   *refund.Refunder
	Restored  *restore.Checker
	Trees     *trees.Trees
	Log       *slog.Logger
	Tell      func(job.Event)

	Key          string // of the provider
	Decrypts     bool   // there is a cipher
	Runs         int    // that a job is worth at most
	QuoteTTL     time.Duration
	LookupEvery  time.Duration
	OnStoreError func(err error)
}

// Flow has the actors of all open jobs. It is safe for concurrent use.
type Flow struct {
	cfg  Config
	log  *slog.Logger
	ctx  context.Context // of Resume: jobs outlive the event that began them
	jobs sync.WaitGroup

	mu   sync.Mutex
	open map[string]*actor // by request id
}

// New makes a Flow without jobs.
func New(cfg Config) *Flow { return &Flow{cfg: cfg, log: cfg.Log, open: map[string]*actor{}} }

// actor owns one job: its goroutine does the job's steps.
type actor struct {
	*Flow
	job      *openjob.Job
	bill     *charge.Bill
	delivery *deliver.Delivery
	// unreadable is why some of the job's documents could not be parsed; nil if all were.
	unreadable error
	canceled   sync.Once // job.Cancel is closed
}

// Resume starts every job that a previous life left open, and says when the oldest of
// them was added: now, if none is open. All jobs go on until ctx ends.
func (f *Flow) Resume(ctx context.Context) (oldest time.Time, err error) {
	f.ctx, oldest = ctx, time.Now()
	open, err := f.cfg.Store.OpenJobs(ctx)
	if err != nil {
		return oldest, fmt.Errorf("list open jobs: %w", err)
	}
	unknown, err := f.cfg.Store.UnknownPayments(ctx)
	if err != nil {
		return oldest, fmt.Errorf("list jobs that were given up: %w", err)
	}

	f.cfg.Trees.Sweep(open)
	for _, id := range unknown {
		j, err := f.cfg.Store.Job(ctx, id)
		if err != nil {
			return oldest, fmt.Errorf("read job %s, which was given up: %w", id, err)
		}
		f.Launch(openjob.Parse(ctx, f.cfg.Publisher, j))
	}

	for _, id := range open {
		j, err := f.cfg.Store.Job(ctx, id)
		if err != nil {
			return oldest, fmt.Errorf("read open job %s: %w", id, err)
		}
		resumed, unreadable := openjob.Parse(ctx, f.cfg.Publisher, j)
		if err := f.checkOurs(resumed); err != nil {
			return oldest, err
		}

		f.cfg.Gate.Resume(j)
		if j.AddedAt.Before(oldest) {
			oldest = j.AddedAt
		}
		if unreadable == nil {
			f.cfg.Publisher.NoteReader(resumed.Asked)
		}
		f.log.Info("resuming", "request", id, "state", j.State)
		f.Launch(resumed, unreadable)
	}

	return oldest, nil
}

// Launch starts the goroutine that owns the job until it is terminal. unreadable is why
// some of its documents could not be parsed, if they could not.
func (f *Flow) Launch(j *openjob.Job, unreadable error) {
	id := j.RequestID
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.open[id] != nil || f.ctx.Err() != nil {
		return
	}
	bill := f.cfg.Collector.Bill(j)
	a := &actor{Flow: f, job: j, bill: bill, delivery: f.cfg.Deliverer.Delivery(j, bill), unreadable: unreadable}
	f.open[id] = a
	f.jobs.Go(func() {
		a.drive(f.ctx)
		f.cfg.Gate.Leave(id)
		f.cfg.Publisher.ForgetBlobs(id)
		if f.ctx.Err() == nil {
			f.cfg.Trees.Forget(id)
		}
		f.mu.Lock()
		delete(f.open, id)
		f.mu.Unlock()
	})
}

// wake tells the job's goroutine to look again.
func (a *actor) wake() {
	select {
	case a.job.Wake <- struct{}{}:
	default:
	}
}

// wake tells a job's goroutine, if it has one, to look again.
func (f *Flow) wake(id string) {
	f.mu.Lock()
	a := f.open[id]
	f.mu.Unlock()
	if a != nil {
		a.wake()
	}
}

// openOf is the buyer's job if it has not ended, or nil. Anybody may name any job, and
// many in one event, so this asks no store.
func (f *Flow) openOf(buyer, id string) *actor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.open[id]; a != nil && a.job.To.Buyer == buyer {
		return a
	}
	return nil
}

// Cancel ends an open job at its buyer's word, where its state allows that. It reports
// whether the buyer has such a job.
func (f *Flow) Cancel(buyer, id string) bool {
	a := f.openOf(buyer, id)
	if a != nil {
		a.canceled.Do(func() { close(a.job.Cancel) })
	}
	return a != nil
}

// NoteInvoice has the job of an invoice looked at, which may have changed.
func (f *Flow) NoteInvoice(hash payments.Hash) {
	j, err := f.cfg.Store.JobByPaymentHash(f.ctx, hash)
	switch {
	case err != nil:
	case j.State.Terminal():
		f.late(f.ctx, j)
	default:
		f.wake(j.RequestID)
	}
}

// Accept keeps the buyer's signed acceptance of our quote.
func (f *Flow) Accept(ctx context.Context, ev nostr.Event) {
	t := ev.Tags.Find("e")
	if t == nil {
		return
	}
	a := f.openOf(ev.PubKey, t[1])
	if a == nil {
		return
	}
	j, err := f.cfg.Store.Job(ctx, t[1])
	if err != nil || j.State.Terminal() {
		return
	}
	if f.cfg.Collector.Accept(ctx, &j, a.job.QuoteOf(j.Due()), ev) {
		f.wake(j.RequestID)
	}
}

// Reveal answers a buyer that closed its panel's commits: with the reveal, if
// our commit is among those that count.
func (f *Flow) Reveal(ctx context.Context, ev nostr.Event) {
	c, err := f.cfg.Deliverer.ClosingOf(ctx, ev)
	if err != nil {
		f.log.Debug("closing dropped", "event", ev.ID, "err", err)
		return
	}

	for _, seat := range c.Results {
		if seat.Provider != f.cfg.Key {
			continue
		}
		a := f.openOf(ev.PubKey, seat.RequestID)
		if a == nil || a.unreadable != nil {
			continue
		}
		j, err := f.cfg.Store.Job(ctx, seat.RequestID)
		if err != nil {
			continue
		}
		if err := a.delivery.Reveal(ctx, &j, c, seat); err != nil {
			f.log.Error("reveal", "request", j.RequestID, "err", err)
			f.cfg.OnStoreError(err)
		}
	}
}

// NoteAcks notes answers to a job's result and wakes the job.
func (f *Flow) NoteAcks(requestID string, acks []job.Ack) {
	f.mu.Lock()
	a := f.open[requestID]
	f.mu.Unlock()
	if a != nil {
		a.delivery.Note(acks)
		a.wake()
	}
}

// Errors of Serve where the node was given other secrets than its open jobs have.
// Going on would take money for what the buyer cannot read, or give results away
// that cannot be paid for any more.
var (
	ErrOtherKey    = errors.New("open jobs were quoted with another key; start with that one until they have ended")
	ErrOtherSecret = errors.New("open jobs were quoted with another preimage secret; restore its file from your backup")
	// ErrHidden: open jobs are encrypted, and the key is at a remote signer, which
	// opens nothing here: they could be neither delivered nor ended.
	ErrHidden = errors.New("open jobs are encrypted, which a remote signer does not open; sell with the key itself until they have ended")
)

// checkOurs reports whether a job is one of this key and this preimage secret, and is
// readable here.
func (f *Flow) checkOurs(j *openjob.Job) error {
	q, err := receipts.ParseQuote(j.Quote) // whatever else of the job is readable
	switch {
	case err != nil:
		return fmt.Errorf("stored quote of job %s: %w", j.RequestID, err)
	case q.Provider != f.cfg.Key:
		return fmt.Errorf("%w: job %s is of %s", ErrOtherKey, j.RequestID, q.Provider)
	case q.PaymentHash != nil && f.cfg.Collector.Preimage(j.RequestID, &j.Charge).Hash() != j.PaymentHash:
		return fmt.Errorf("%w: job %s", ErrOtherSecret, j.RequestID)
	case !f.cfg.Decrypts && j.To.Scheme != "":
		return fmt.Errorf("%w: job %s", ErrHidden, j.RequestID)
	}

	return nil
}

// Open counts the jobs that have not ended.
func (f *Flow) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// Wait waits for all jobs to stop, once ctx of [Flow.Resume] has ended.
func (f *Flow) Wait() { f.jobs.Wait() }
