// Package deliver brings the result of a job to its buyer: it signs the event that names
// the result, makes both durable, and has relays and blob servers take them.
package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// Store keeps results, and what relays said of them.
type Store interface {
	// Finish moves running -> delivering if run is the current run, with the
	// result and the bytes of all that it refers to. ErrConflict for a result of
	// another plan than the run's.
	Finish(ctx context.Context, requestID string, run int, r job.Result, contents [][]byte, out ...job.OutEvent) error
	// SetResultEvent replaces the event of a result in delivery, if it is still the
	// one that is named first; that one is offered no more. The rest stays.
	SetResultEvent(ctx context.Context, requestID, was, eventID string, out job.OutEvent) error
	// Acks lists what relays said of the events of one job.
	Acks(ctx context.Context, requestID string) ([]job.Ack, error)
	// Confirmed counts the relays that said OK to an event.
	Confirmed(ctx context.Context, eventID string) (int, error)
	// Content is a blob.
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
	// Enqueue queues events of no job.
	Enqueue(ctx context.Context, out ...job.OutEvent) error
}

// Market is the relays, and the blob servers beside them.
type Market interface {
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	Relays() []string
	// BlobURLs says where a blob of this digest (hex) will be found.
	BlobURLs(digestHex string) []string
}

// Config is what a Deliverer needs.
type Config struct {
	Store     Store
	Market    Market
	Publisher *publish.Publisher
	Log       *slog.Logger
	Tell      func(job.Event)
	Leave     func(requestID string) // the job may wait for long, but in nobody's way
	// Preimage is what the payment of a charge shows: the key of a sealed result.
	Preimage func(requestID string, c *job.Charge) payments.Preimage

	Key         string // of the provider
	RootSecret  []byte // the keys of hidden boxes, and the nonces of commits, derive from it
	LookupEvery time.Duration

	Lifecycle   lifecycle.Kinds // of NIP-SA's events that are published
	HideSession bool            // the record of every job is for its buyer alone
	Encrypts    bool            // there is a cipher
}

// Deliverer delivers results.
type Deliverer struct {
	cfg Config
	log *slog.Logger
}

// New makes a Deliverer.
func New(cfg Config) *Deliverer { return &Deliverer{cfg: cfg, log: cfg.Log} }

// Delivery is that of one job. Its job's goroutine alone uses it, but for [Delivery.Note]
// and [Delivery.Reveal].
type Delivery struct {
	*Deliverer
	job  *openjob.Job
	bill *charge.Bill

	mu       sync.Mutex
	answers  answers
	revealed bool // the commit was, in this life
}

// answers are what relays said, in this life, of a result that was made in it. What is
// known here need not be read again: each look at the store costs about as much as a
// signature.
type answers struct {
	result string // its event id; "" for a result of an earlier life
	rounds int    // times that it was offered
	oks    int    // the most relays that took it in one of them
}

// Delivery is the delivery of a job.
func (d *Deliverer) Delivery(j *openjob.Job, bill *charge.Bill) *Delivery {
	return &Delivery{Deliverer: d, job: j, bill: bill}
}

const (
	// publishedWait bounds the question whether a relay has a result that it did not
	// say it took.
	publishedWait = 5 * time.Second
	// placeTTL is how long a result that no relay takes keeps its job's place
	// among those that count for admission.
	placeTTL = 10 * time.Minute
)

// errTooLarge: no relay would take the event that tells of the result.
var errTooLarge = errors.New("the result and its list of artifacts fit in no event")

// Record signs the 6050 of what a run made, and makes all of it durable in one
// transaction. From here on the work is not lost. ctx outlives the run.
func (d *Delivery) Record(ctx context.Context, made *openjob.Made) error {
	r := made.Result
	b, err := d.boxesOf(made)
	switch {
	case errors.Is(err, errTooLarge):
		return openjob.GiveBack(job.StateFailed, job.CodeStopped, err.Error())
	case err != nil:
		d.log.Error("seal result", "request", d.job.RequestID, "err", err)
		return openjob.GiveBack(job.StateFailed, job.CodeInternal, "sealing")
	}

	contents := append([][]byte{made.Replay}, made.Artifacts...) // beside the output
	if b != nil {
		contents = append(contents, b.boxes...)
	}
	events, err := d.resultEvents(ctx, &r, b, made)
	if errors.Is(err, errTooLarge) {
		return openjob.GiveBack(job.StateFailed, job.CodeStopped, err.Error())
	}
	if err != nil {
		return err
	}

	d.expect(r.EventID)
	d.cfg.Publisher.UploadAhead(ctx, events[0], beside(made, b), d.job.Mode == receipts.ModeHold && !d.job.IsSealed())
	if err := d.cfg.Store.Finish(ctx, d.job.RequestID, d.job.Run, r, contents, events...); err != nil {
		if errors.Is(err, job.ErrConflict) {
			d.log.Warn("a fenced run ended late", "request", d.job.RequestID, "run", d.job.Run)
			return nil
		}
		return fmt.Errorf("record result: %w", err)
	}

	d.cfg.Tell(job.StateEvent{RequestID: d.job.RequestID, State: job.StateDelivering})
	d.cfg.Publisher.Send(events...)
	d.job.State, d.job.StateAt, d.job.Result = job.StateDelivering, time.Now().UTC(), &r
	d.job.Keep()
	d.log.Info("result durable", "request", d.job.RequestID, "output_hash", r.OutputHash, "run", d.job.Run)
	return nil
}

// expect says which result of the job relays are about to be offered. It comes
// before the commit: from then on they may answer.
func (d *Delivery) expect(eventID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = answers{result: eventID}
}

// Note takes answers to the job's result.
func (d *Delivery) Note(acks []job.Ack) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers.rounds++
	d.answers.oks = max(d.answers.oks, publish.OKs(d.answers.result, acks))
}

// IsTaken reports whether a relay took the result. The store is asked
// where its answers are of an earlier life, or of several rounds together.
func (d *Delivery) IsTaken(ctx context.Context) (bool, error) {
	d.mu.Lock()
	known := d.answers
	d.mu.Unlock()
	if known.result == d.job.Result.EventID && (known.rounds == 0 || known.oks > 0) {
		return known.oks > 0, nil
	}
	n, err := d.cfg.Store.Confirmed(ctx, d.job.Result.EventID)
	return n > 0, err
}

// isUnanswered reports that nobody has said anything of a result of this life yet.
func (d *Delivery) isUnanswered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers.result == d.job.Result.EventID && d.answers.rounds == 0
}

// taken notes that a relay has the result, whatever it said.
func (d *Delivery) taken(eventID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = answers{result: eventID, rounds: 1, oks: 1}
}

// Await waits for a relay to take the result until by, makes it shorter where they
// refuse it, or ends the job.
func (d *Delivery) Await(ctx context.Context, by time.Time) error {
	cancel := d.job.Cancel
	if d.job.PaysFirst() {
		cancel = nil // the deal stands
	}

	select {
	case <-cancel:
		return d.withhold(ctx, job.StateCanceled, job.CodeCanceled, "by the buyer, before the result was delivered")
	default:
	}

	if !time.Now().Before(by) {
		return d.withhold(ctx, job.StateFailed, job.CodeDeadline, "the result could not be delivered in time")
	}

	refused, err := d.refusal(ctx)
	switch {
	case err != nil:
		return err
	case refused == refusedAtAll:
		return d.withhold(ctx, job.StateFailed, job.CodeInternal, "the signer, all relays or the blob servers refuse the result")
	case refused == refusedAsIs:
		return d.reword(ctx)
	}

	if time.Since(d.job.StateAt) > placeTTL {
		d.cfg.Leave(d.job.RequestID) // it goes on, but in nobody's way
	}

	select {
	case <-cancel:
	case <-d.job.Wake: // an answer came, or the invoice changed
	case <-time.After(min(d.cfg.LookupEvery, time.Until(by))):
	case <-ctx.Done():
	}

	d.job.Keep()
	return ctx.Err()
}

// refusal is how a result that no relay took was refused.
type refusal int

const (
	notRefused   refusal = iota
	refusedAsIs          // a shorter form of it might be taken
	refusedAtAll         // by all who are asked
)

// refusal reads what was said of a result that no relay took.
func (d *Delivery) refusal(ctx context.Context) (refusal, error) {
	if d.isUnanswered() {
		return notRefused, nil
	}
	acks, err := d.cfg.Store.Acks(ctx, d.job.RequestID)
	if err != nil {
		return notRefused, err
	}

	tries, refused := 0, map[string]bool{}
	for _, ack := range acks {
		switch {
		case ack.EventID != d.job.Result.EventID:
		case ack.Relay == publish.BlobServers:
			return refusedAtAll, nil
		case ack.Relay == publish.SignerName:
			tries++
		case strings.HasPrefix(ack.Message, "invalid:"), strings.HasPrefix(ack.Message, "blocked:"):
			refused[ack.Relay] = true
		}
	}

	switch {
	case tries >= publish.SignTries:
		return refusedAtAll, nil
	case len(refused) == 0:
		return notRefused, nil
	}

	if _, _, _, shorter, err := d.shorterResult(); err != nil || shorter {
		return refusedAsIs, err
	}
	if slices.ContainsFunc(d.cfg.Market.Relays(), func(url string) bool { return !refused[url] }) {
		return notRefused, nil // one that was not heard yet may take it
	}

	return refusedAtAll, nil
}

func (d *Delivery) shorterResult() (of domain.Domain, tags nostr.Tags, content string, shorter bool, err error) {
	var ev nostr.Event
	if err := json.Unmarshal(d.job.Result.Event, &ev); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	if of, err = domain.Of(ev.Tags); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	tags = slices.DeleteFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == domain.TagName })
	tags, content, shorter = d.shorten(d.job.Result, tags, ev.Content)
	return of, tags, content, shorter, nil
}

// reword offers a result in a shorter form. The former one is withdrawn first: of
// two that relays have, the buyer would not know which one the receipt names.
func (d *Delivery) reword(ctx context.Context) error {
	if has, err := d.retract(ctx); err != nil || has {
		return err
	}
	of, tags, content, _, err := d.shorterResult()
	if err != nil {
		return err
	}
	was, r := d.job.Result.EventID, *d.job.Result
	out, err := d.fit(ctx, &r, of, tags, content)
	if err != nil {
		return err
	}

	d.expect(r.EventID)
	if err := d.cfg.Store.SetResultEvent(ctx, d.job.RequestID, was, r.EventID, out); err != nil {
		return fmt.Errorf("record the result's event: %w", err)
	}
	d.cfg.Publisher.Send(out)
	d.log.Warn("relays refuse the result: it is offered in a shorter form", "request", d.job.RequestID, "bytes", len(out.Event))
	d.job.Result = &r
	d.job.Keep()
	return nil
}

// withhold ends a job whose result no relay took, unless one took it after all.
func (d *Delivery) withhold(ctx context.Context, to job.State, code job.Code, detail string) error {
	if has, err := d.retract(ctx); err != nil || has {
		return err
	}
	return openjob.GiveBack(to, code, detail)
}

// retract has the result offered no more, and reports whether a relay has it all
// the same: its answer came meanwhile, or was lost. Then it goes on as delivered.
func (d *Delivery) retract(ctx context.Context) (has bool, err error) {
	id := d.job.Result.EventID
	if err := d.cfg.Publisher.Withdraw(ctx, id); err != nil {
		return false, err
	}
	if has, err = d.IsTaken(ctx); err == nil && !has {
		asking, stop := context.WithTimeout(ctx, publishedWait)
		found, _ := d.cfg.Market.Query(asking, nostr.Filter{IDs: []string{id}})
		stop()
		has = slices.ContainsFunc(found, func(ev nostr.Event) bool { return ev.ID == id })
	}

	if has {
		d.taken(id)
		d.cfg.Publisher.Restore(id)
		d.job.Keep()
	}

	return has, err
}
