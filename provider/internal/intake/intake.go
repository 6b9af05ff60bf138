// Package intake reads requests: it refuses them, or quotes a job that is to go on.
package intake

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/internal/recent"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// futureWindow is how far ahead of our clock a request may be.
const futureWindow = 5 * time.Minute

// farFuture is when "never" begins, in Unix seconds: the largest numbers are dates
// before our own for a time.Time.
const farFuture = 1 << 40

// Store remembers what was taken, and what was not.
type Store interface {
	Job(ctx context.Context, requestID string) (job.Job, error)
	// AddJob commits the quote intent, state quoted (P1, P2). ErrDuplicate if
	// the request id is known, ErrConflict if the payment hash is,
	// ErrCreditSpent if the buyer's credit is less than the job's CreditMsats,
	// ErrRefundOfAnother if another buyer has named the job's RefundAddress.
	AddJob(ctx context.Context, j job.Job) error
	// Refuse remembers a request that was not admitted, so that a replay of it
	// is not answered again. It may be forgotten after RefusedFor, or RefusedMost
	// further requests. ErrDuplicate if the request id is known.
	Refuse(ctx context.Context, requestID, buyer string, reason job.Reason, out ...job.OutEvent) error
}

// Gate says who may buy, and keeps the places of their jobs.
type Gate interface {
	MayBuy(ctx context.Context, key string) error
	IsFreeEnough(ev nostr.Event, mode receipts.Mode) error
	IsCustomer(ctx context.Context, key string) (bool, error)
	MayAnswer(ctx context.Context, key string) bool
	Enter(ctx context.Context, requestID, buyer string, mode receipts.Mode, hasFee bool) (quoteTTL time.Duration, err error)
	Leave(requestID string)
}

// Listen hands every event that matches to handle, stored ones first, until ctx ends.
type Listen func(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error

// Limits bound a request.
type Limits struct {
	ContextTokens int // that its document counts
	MemoryMB      int64
	CPUs          float64
	ClockWindow   time.Duration // its age
	Inputs        time.Duration // its inputs are waited for
	LeastMsats    int64         // the smallest payment that the wallet can take
}

// Config is what an Intake needs.
type Config struct {
	Store     Store
	Gate      Gate
	Collector *charge.Collector
	Publisher *publish.Publisher
	Listen    Listen
	Log       *slog.Logger
	Tell      func(job.Event)

	Key          string
	RequestKinds []int                 // our own first
	Prices       func() *job.PriceList // now
	Images       job.Images
	Limits       Limits
	Encrypts     bool // encrypted requests are taken
	// Withdrawn says why jobs of a type cannot be done now, "" if they can; nil: they can.
	Withdrawn func(schemaID string) string
	// Takes says why what does the jobs of a type would refuse this typed request; nil:
	// it would take it, and with Takes nil all.
	Takes func(schemaID string, input []byte) error
	// Trees says why files that a request names as a tree are not taken, as a
	// [job.Refusal].
	Trees func(ctx context.Context, asked nostr.Event, typed *schemas.Request, mode receipts.Mode) error

	WasAnswered   func(requestID string) bool // by this key, in a life that the store does not know
	RefundAddress func(view nostr.Event, mode receipts.Mode) string
	// Launch has a job that was admitted go on; unreadable is why some of its documents
	// could not be parsed.
	Launch func(j *openjob.Job, unreadable error)
	// Cancel cancels a job of the buyer's, and reports whether there is one.
	Cancel       func(buyer, requestID string) bool
	OnStoreError func(err error)
}

// Intake reads requests. It is safe for concurrent use.
type Intake struct {
	cfg      Config
	log      *slog.Logger
	seen     *recent.Set // request ids
	canceled *recent.Set // buyer's key + request id
	waiting  *waiting
	waits    sync.WaitGroup
}

// New makes an Intake that has read nothing.
func New(cfg Config) *Intake {
	return &Intake{cfg: cfg, log: cfg.Log, seen: recent.New(100_000), canceled: recent.New(10_000), waiting: newWaiting()}
}

// Wait waits for the requests whose inputs are waited for, once ctx of [Intake.Request]
// has ended.
func (in *Intake) Wait() { in.waits.Wait() }

// Request admits or refuses one request. What is not for us, not timely or
// already known is dropped in silence: answering it would let strangers make
// us speak.
func (in *Intake) Request(ctx context.Context, ev nostr.Event) {
	if !in.forUs(ev) || !in.timely(ev) || in.canceled.Has(ev.PubKey+ev.ID) || !in.seen.Add(ev.ID) {
		return
	}
	if _, err := in.cfg.Store.Job(ctx, ev.ID); err == nil {
		return // known from before a restart
	}
	if in.cfg.WasAnswered(ev.ID) {
		in.log.Debug("answered before, by this key", "request", ev.ID)
		return
	}

	// Who may not buy is told so before any work is done for it, such as opening
	// what it has hidden.
	view, err := ev, in.cfg.Gate.MayBuy(ctx, ev.PubKey)
	if err == nil {
		view, err = in.cfg.Publisher.DecryptRequest(ctx, ev)
	}
	if err == nil && in.mayBeSold(view) {
		err = readable(ev, view)
	}
	if err == nil && slices.ContainsFunc(view.Tags, isElsewhere) {
		if err = in.gather(ctx, ev, view); err == nil {
			return // it goes on when its inputs are here
		}
	}

	in.take(ctx, ev, view, nil, err)
}

// readable refuses a request that those who verify its receipt would read
// otherwise, or not at all: it would be run and paid, and proved to nobody.
func readable(ev, view nostr.Event) error {
	raw, err := ev.MarshalJSON()
	if err == nil {
		_, err = receipts.ParseEvent(raw, receipts.MaxEventBytes)
	}
	if err == nil {
		_, err = receipts.TermsOf(view.Tags)
	}
	if err != nil {
		return job.Refuse(job.CodeInvalidInput, err.Error())
	}
	return nil
}

// take admits a request as its view shows it, with the events that were its inputs,
// unless err has it refused already.
func (in *Intake) take(ctx context.Context, ev, view nostr.Event, inputs []receipts.Event, err error) {
	var j job.Job
	var req *schemas.Request
	if err == nil {
		j, req, err = in.admit(ctx, view, receipts.IDs(inputs))
	}
	if err != nil {
		in.refuse(ctx, ev, reasonOf(err))
		return
	}

	log := in.log.With("request", ev.ID)
	if end, err := expiration(ev); err != nil || !end.IsZero() && !end.After(time.Now()) {
		in.cfg.Gate.Leave(j.RequestID)
		log.Debug("expired while it was admitted")
		return
	}

	var raw []byte
	if raw, err = ev.MarshalJSON(); err == nil {
		j.Request = raw // as it was signed
		j.RefundAddress = in.cfg.RefundAddress(view, j.Mode)
		err = in.cfg.Store.AddJob(ctx, j)
	}

	switch {
	case errors.Is(err, job.ErrDuplicate):
		in.cfg.Gate.Leave(j.RequestID)
	case errors.Is(err, job.ErrCreditSpent): // by another request of the buyer's, meanwhile
		in.cfg.Gate.Leave(j.RequestID)
		in.seen.Remove(ev.ID)
		in.Request(ctx, ev)
	case errors.Is(err, job.ErrRefundOfAnother):
		in.cfg.Gate.Leave(j.RequestID)
		in.refuse(ctx, ev, job.Because(job.CodeInvalidInput, "refund: another key's request named this address first; name a fresh one"))
	case err != nil:
		in.cfg.Gate.Leave(j.RequestID)
		in.seen.Remove(ev.ID)
		log.Error("admit request", "err", err)
		in.cfg.OnStoreError(err)
	default:
		in.cfg.Tell(job.AdmissionEvent{Job: j})
		log.Info("quoted", "buyer", j.Buyer, "schema", j.SchemaID, "mode", j.Mode, "price_msats", j.PriceMsats)
		in.cfg.Publisher.NoteReader(view)
		in.cfg.Launch(openjob.New(j, view, req))
		if in.canceled.Has(j.Buyer + j.RequestID) { // meanwhile
			in.cfg.Cancel(j.Buyer, j.RequestID)
		}
	}
}

func (in *Intake) forUs(ev nostr.Event) bool {
	named := false
	for _, t := range ev.Tags {
		if len(t) >= 2 && t[0] == "p" {
			if t[1] == in.cfg.Key {
				return true
			}
			named = true
		}
	}
	return !named && ev.PubKey != in.cfg.Key
}

func (in *Intake) timely(ev nostr.Event) bool {
	now, at := time.Now(), ev.CreatedAt.Time()
	if at.Before(now.Add(-in.cfg.Limits.ClockWindow)) || at.After(now.Add(futureWindow)) {
		return false
	}
	end, err := expiration(ev)
	return err == nil && (end.IsZero() || end.After(now))
}

// expiration is when a request is to be taken up no more (NIP-40); zero: never.
func expiration(ev nostr.Event) (time.Time, error) {
	t := ev.Tags.Find("expiration")
	if t == nil {
		return time.Time{}, nil
	}
	unix, err := strconv.ParseInt(t[1], 10, 64)
	if err != nil || unix > farFuture {
		return time.Time{}, err
	}
	return time.Unix(unix, 0).UTC(), nil
}

// concerns reports whether a refusal is worth saying. A request that is open to
// all and not of our kind is for others: nobody waits to hear it from us.
func (in *Intake) concerns(ev nostr.Event, reason job.Reason) bool {
	switch reason.Code {
	case job.CodeUntypedJob, job.CodeUnsupportedInput, job.CodeMissingInput, job.CodeUnusableInput, job.CodeUnsupportedSchema, job.CodeUnsupportedEncryption:
		return ev.Tags.ContainsAny("p", []string{in.cfg.Key})
	}
	return true
}

// refuse remembers the refusal and answers once, within the refusal rate.
func (in *Intake) refuse(ctx context.Context, ev nostr.Event, reason job.Reason) {
	var out []job.OutEvent
	if in.concerns(ev, reason) && in.cfg.Gate.MayAnswer(ctx, ev.PubKey) {
		to := publish.SenderOf(ev)
		if !in.cfg.Encrypts {
			to.Scheme = "" // it cannot be hidden; the reason tells nothing of the request
		}
		fb, err := in.cfg.Publisher.Feedback(ctx, to, "error", reason.String(), "")
		if err != nil {
			in.log.Error("sign refusal", "request", ev.ID, "err", err)
			return
		}
		out = append(out, fb)
	}

	err := in.cfg.Store.Refuse(ctx, ev.ID, ev.PubKey, reason, out...)
	if err != nil {
		if !errors.Is(err, job.ErrDuplicate) {
			in.log.Error("record refusal", "request", ev.ID, "err", err)
			in.cfg.OnStoreError(err)
		}
		return
	}

	in.cfg.Tell(job.RefusalEvent{Reason: reason})
	why := reason.String()
	if publish.IsEncrypted(ev) {
		why = string(reason.Code) // the words may say what was hidden
	}
	in.log.Info("refused", "request", ev.ID, "buyer", ev.PubKey, "reason", why)
	in.cfg.Publisher.Send(out...)
}

// IsCancellation reports whether an event ends jobs of its author's: a deletion,
// which every NIP-90 client can send, or our own word that an offer is not taken.
func IsCancellation(ev nostr.Event) bool {
	switch ev.Kind {
	case kinds.Deletion:
		return domain.Allow(domain.Deletion, ev.Tags) == nil
	case kinds.NotTaken:
		return domain.Demand(domain.NotTaken, ev.Tags) == nil
	}
	return false
}

// Note has the cancellations in an event count for whatever is read after it: relays keep
// no order.
func (in *Intake) Note(ev nostr.Event) {
	if !IsCancellation(ev) {
		return
	}
	for _, id := range deleted(ev) {
		in.canceled.Add(ev.PubKey + id)
	}
}

// deleted are the event ids that a deletion names, bounded.
func deleted(ev nostr.Event) []string {
	var ids []string
	for _, t := range ev.Tags[:min(len(ev.Tags), 64)] {
		if len(t) >= 2 && t[0] == "e" && nostr.IsValid32ByteHex(t[1]) {
			ids = append(ids, t[1])
		}
	}
	return ids
}

// Cancel stops every open job of the key that a cancellation names, or whose
// offer it does not take. Other programs' events of these kinds say nothing to us.
func (in *Intake) Cancel(ev nostr.Event) {
	if !IsCancellation(ev) {
		return
	}

	for _, id := range deleted(ev) {
		in.waiting.cancel(ev.PubKey, id)
		if in.cfg.Cancel(ev.PubKey, id) {
			in.log.Info("cancel requested", "request", id)
		}
	}
}

// reasonOf is why a request is refused for an error.
func reasonOf(err error) job.Reason {
	var no *job.Refusal
	if errors.As(err, &no) {
		return no.Reason
	}
	return job.Because(job.CodeInternal, openjob.RetryLater)
}
