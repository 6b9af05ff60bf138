package provider

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// State is where a job stands. A job only moves forward; the store refuses
// any other step with ErrConflict.
//
//	quoted -> paid -> running -> delivering -> succeeded   (hold, prepay)
//	quoted -> running -> delivering -> succeeded           (postpay, free)
//	any of quoted, paid, running, delivering -> failed | canceled | expired
//	running -> running                                     (a rerun after a crash, with the next run number)
//	refused                                                (never admitted)
//
// A job with an engagement fee stays quoted until the fee has its receipt.
type State string

// The states of a job.
const (
	StateRefused    State = "refused"    // not admitted; the reason was sent
	StateQuoted     State = "quoted"     // quote committed; the invoice may or may not exist yet
	StatePaid       State = "paid"       // payment held or received, directive recorded
	StateRunning    State = "running"    // an agent works on it
	StateDelivering State = "delivering" // the signed result is durable; publishing, then settling
	StateSucceeded  State = "succeeded"
	StateFailed     State = "failed"
	StateCanceled   State = "canceled"
	StateExpired    State = "expired" // never paid in time
)

// Terminal reports whether nothing more happens to a job in this state.
func (s State) Terminal() bool {
	switch s {
	case StateRefused, StateSucceeded, StateFailed, StateCanceled, StateExpired:
		return true
	}
	return false
}

// Errors of a Store.
var (
	ErrNotFound  = errors.New("no such job")
	ErrDuplicate = errors.New("request already known")
	// ErrConflict: the job is not in a state that allows the step, the run is
	// not the current one, or the payment hash serves another job. Nothing was
	// written.
	ErrConflict = errors.New("step does not fit the job's state")
	// ErrStoreFailed: the store can commit no more (disk full, I/O error). The
	// provider stops taking jobs (P17).
	ErrStoreFailed = errors.New("the store can no longer commit")
)

// Job is one admitted request with all that became durable about it.
type Job struct {
	// Set when the job is added; they never change.
	RequestID   string // event id of the request
	Kind        int
	Buyer       string // x-only hex key
	SchemaID    string
	JobHash     hashing.Digest
	Request     []byte // the signed request event
	Input       []byte // canonical typed request, defaults filled
	Relays      []string
	Mode        receipts.Mode
	PriceMsats  int64
	Quote       []byte // canonical bytes
	QuoteHash   hashing.Digest
	PaymentHash payments.Hash // unique over all jobs; zero for free ones, and until SetInvoice where the wallet chooses it
	Nonce       []byte        // 16 random bytes the preimage derives from
	CreditMsats int64         // credit of the buyer's that PriceMsats is lowered by
	// RefundAddress is what a job that is prepaid on the chain names for its refund;
	// it is written, to be held against those of other buyers, and not read back.
	RefundAddress string
	ExpiresAt     time.Time // when the quote lapses unpaid
	PolicyID      hashing.Digest
	AddedAt       time.Time

	// Current status.
	State   State
	Reason  Reason
	StateAt time.Time

	// Engagement is the fee that is asked before the job goes on; nil if none is.
	Engagement *Engagement

	// Filled in as the job goes; zero until then.
	BOLT11      string
	Payment     *Payment
	DirectiveID string
	Thread      string
	Run         int // number of the latest run, from 1
	// Deadline is when all work on the job ends, whatever run does it; decided
	// as the first run starts (K-24).
	Deadline   time.Time
	PlanHash   hashing.Digest // of the latest run's plan
	Acceptance []byte
	Result     *Result
	Receipt    []byte // RECEIPT.json
	ReceiptID  string
}

// Payment is money that arrived for a job.
type Payment struct {
	Hash      payments.Hash
	State     payments.InvoiceState // held or settled
	PaidMsats int64
	SettleBy  time.Time // held only: the hold is lost after this
	Outpoints string    // that paid, as "txid:index,..."; "" unless on the chain
	// Preimage is that of a settled payment whose hash the wallet chose; zero where
	// it is ours to derive.
	Preimage   payments.Preimage
	RecordedAt time.Time
}

// Directive is the recorded intent behind a side effect: what was approved, by
// what, once (K-10).
type Directive struct {
	ID         string
	Key        string // idempotency key; unique
	ApprovedBy string // "payment:<hash>" or "policy:<mode>"
}

// Plan is what is fixed before a run, and committed as it starts.
type Plan struct {
	Deadline time.Time
	Hash     hashing.Digest
}

// Result is a finished run, ready to be delivered.
type Result struct {
	SessionID     string
	Output        []byte // canonical result
	OutputHash    hashing.Digest
	AgreementHash *hashing.Digest
	PlanHash      hashing.Digest
	Trajectory    hashing.Digest
	Redacted      hashing.Digest
	Replay        hashing.Digest // of the file's bytes; the file is a content
	EventID       string
	Event         []byte // the signed 6050; the last one, if relays refused others
	Artifacts     []hashing.Digest
	StartedAt     time.Time
	FinishedAt    time.Time
}

// OutEvent is a signed event that must reach relays. It is queued in the same
// transaction as the change it tells of.
type OutEvent struct {
	EventID   string
	Event     []byte // JSON
	RequestID string // "" for events of no job
	Relays    []string
	Required  int // how many relays must say OK
	// Sig is the signature of an event that was queued without one.
	Sig string

	made   *nostrEvent // what Event says, if this process wrote it
	unpaid bool        // the result of a free job
}

// event is what Event says.
func (o OutEvent) event() (nostrEvent, error) {
	if o.made != nil {
		return *o.made, nil
	}
	var ev nostrEvent
	err := json.Unmarshal(o.Event, &ev)
	return ev, err
}

// Pending is a queued event that some relay has not confirmed.
type Pending struct {
	OutEvent
	Confirmed []string // relays that said OK
	Attempts  int      // answers and errors recorded so far
	QueuedAt  time.Time
}

// Ack is what one relay said of one event.
type Ack struct {
	EventID string
	Relay   string
	OK      bool
	Message string
	At      time.Time
}

// Stats is this node's own record, for the announcement (OA-7.2).
type Stats struct {
	Succeeded    int
	Failed       int
	AvgLatencyMs int64 // from running to delivering, over succeeded jobs
}

// A refusal is remembered for RefusedFor: by then the request is too old to be
// looked at, since Limits.ClockWindow is well below it. Keys are free, so strangers
// could fill the disk meanwhile: of more than the last RefusedMost requests the
// oldest refusal goes first. Sent again, such a request is refused again.
const (
	RefusedFor  = 24 * time.Hour
	RefusedMost = 50_000
)

// Store keeps jobs. Every method that changes anything is one durable
// transaction: when it returns nil, all it names is on disk; otherwise nothing
// is. Queued events ride in the same transaction.
type Store interface {
	Debts
	Engagements

	// AddJob commits the quote intent, state quoted (P1, P2). ErrDuplicate if
	// the request id is known, ErrConflict if the payment hash is,
	// ErrCreditSpent if the buyer's credit is less than the job's CreditMsats,
	// ErrRefundOfAnother if another buyer has named the job's RefundAddress.
	AddJob(ctx context.Context, job Job) error
	// Refuse remembers a request that was not admitted, so that a replay of it
	// is not answered again. It may be forgotten after RefusedFor, or RefusedMost further requests. ErrDuplicate if the request id is known.
	Refuse(ctx context.Context, requestID, buyer string, reason Reason, out ...OutEvent) error
	Job(ctx context.Context, requestID string) (Job, error)
	// JobByPaymentHash finds the job an invoice belongs to.
	JobByPaymentHash(ctx context.Context, hash payments.Hash) (Job, error)
	// Jobs lists jobs, newest first; at most limit if limit > 0.
	Jobs(ctx context.Context, limit int) ([]Job, error)
	// HasPaid reports whether a job of this key was ever paid for.
	HasPaid(ctx context.Context, buyer string) (bool, error)
	// OpenJobs lists the ids of all jobs in a state that is not terminal, oldest first.
	OpenJobs(ctx context.Context) ([]string, error)

	// SetInvoice records the invoice of a job that has none (the same invoice
	// again is fine and queues nothing). chosen is its payment hash where the wallet
	// chose that, zero where the job has one; ErrConflict if another job has it.
	SetInvoice(ctx context.Context, requestID, bolt11 string, chosen payments.Hash, out ...OutEvent) error
	// SetAcceptance records the buyer's acceptance event; the first stays.
	SetAcceptance(ctx context.Context, requestID string, event []byte) error
	// SetPaid moves quoted -> paid: payment, directive and thread (Active) at
	// once. UNIQUE(payment hash) and the directive's key are consumed here.
	SetPaid(ctx context.Context, requestID string, p Payment, d Directive, thread string) error
	// Start moves paid, quoted (postpay and free: d is their directive and
	// thread is made, else d is nil) or running -> running and returns the run
	// number, which fences Finish. The first run's deadline becomes the job's;
	// that of a later run is not looked at.
	Start(ctx context.Context, requestID string, d *Directive, thread string, plan Plan, out ...OutEvent) (run int, err error)
	// Finish moves running -> delivering if run is the current run, with the
	// result and the bytes of all that it refers to. ErrConflict for a result of
	// another plan than the run's.
	Finish(ctx context.Context, requestID string, run int, r Result, contents [][]byte, out ...OutEvent) error
	// SetResultEvent replaces the event of a result in delivery, if it is still the
	// one that is named first; that one is offered no more. The rest stays.
	SetResultEvent(ctx context.Context, requestID, was, eventID string, out OutEvent) error
	// Settle moves delivering -> succeeded and issues the receipt: issue is
	// called inside the transaction with the receipt's sequence (from 1,
	// without gaps) and the hash of the receipt before it. p is the final
	// payment; the thread completes.
	Settle(ctx context.Context, requestID string, p Payment, issue func(Issue) (Issued, error)) error
	// AdoptReceipt makes the chain of receipts go on behind one that our key
	// signed and the store does not know; false if the store is not behind it.
	AdoptReceipt(ctx context.Context, sequence int64, hash hashing.Digest) (bool, error)
	// Close moves an open job to a terminal state without a receipt (failed,
	// canceled, expired; succeeded for free jobs). The thread ends. credit, if
	// not nil, is recorded as owed, with its refund. ErrRefundTaken. The result of a
	// job that did not succeed is offered to relays no more.
	Close(ctx context.Context, requestID string, to State, reason Reason, credit *Credit, out ...OutEvent) error

	// UsePolicy stores the policy manifest that is sold under from now on.
	UsePolicy(ctx context.Context, manifest []byte) error
	// PutContents stores bytes under their digests.
	PutContents(ctx context.Context, contents ...[]byte) error
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)

	// Enqueue queues events of no job.
	Enqueue(ctx context.Context, out ...OutEvent) error
	// PendingEvents lists queued events not yet confirmed by all their relays
	// and younger than maxAge, oldest first.
	PendingEvents(ctx context.Context, maxAge time.Duration, limit int) ([]Pending, error)
	// Unsent counts queued events younger than maxAge that fewer relays confirmed
	// than must.
	Unsent(ctx context.Context, maxAge time.Duration) (int, error)
	// DueEvents lists those of the pending events that are to be offered again now, the
	// longest due first: at once until a relay has answered, then ever more
	// rarely.
	DueEvents(ctx context.Context, maxAge time.Duration, limit int) ([]Pending, error)
	// SetSignature records the signature of an event that was queued without one.
	SetSignature(ctx context.Context, eventID, sig string) error
	// AddAcks records what relays said.
	AddAcks(ctx context.Context, acks ...Ack) error
	// Acks lists what relays said of the events of one job.
	Acks(ctx context.Context, requestID string) ([]Ack, error)
	// Confirmed counts the relays that said OK to an event.
	Confirmed(ctx context.Context, eventID string) (int, error)

	Stats(ctx context.Context) (Stats, error)
}

// Issue is what the store knows when a receipt is made.
type Issue struct {
	Sequence int64
	Previous *hashing.Digest
	At       time.Time
}

// Issued is a receipt and the events that tell of it.
type Issued struct {
	ReceiptID string
	Receipt   []byte // canonical RECEIPT.json
	Out       []OutEvent
	// Excess is what came beyond the price, and is owed; nil if nothing is.
	Excess *Credit
}
