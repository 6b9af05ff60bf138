package job

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

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
	CreditMsats int64 // credit of the buyer's that PriceMsats is lowered by
	// RefundAddress is what a job that is prepaid on the chain names for its refund;
	// it is written, to be held against those of other buyers, and not read back.
	RefundAddress string
	PolicyID      hashing.Digest
	AddedAt       time.Time

	// Current status.
	State   State
	Reason  Reason
	StateAt time.Time

	// Charge is what is asked for the result. Of a free job it is the quote alone.
	Charge
	// Engagement is the fee for the attempt, which is prepaid before the job goes on;
	// nil if none is asked.
	Engagement *Charge

	// Filled in as the job goes; zero until then.
	DirectiveID string
	Thread      string
	Run         int // number of the latest run, from 1
	// Deadline is when all work on the job ends, whatever run does it; decided
	// as the first run starts (K-24).
	Deadline time.Time
	PlanHash hashing.Digest // of the latest run's plan
	Result   *Result
	// Pruned lists the parts that are gone, after the time for which they were promised.
	Pruned []PrunedPart
}

// Due is the charge that the job waits for, or waited for last: the engagement fee until
// it has its receipt, then that of the result.
func (j *Job) Due() *Charge {
	if j.OwesFee() {
		return j.Engagement
	}
	return &j.Charge
}

// OwesFee reports whether the job waits for its engagement fee.
func (j *Job) OwesFee() bool { return j.Engagement != nil && j.Engagement.Receipt == nil }

// Charges are what the job asks money for: the result, and the attempt if it has a fee.
func (j *Job) Charges() []*Charge {
	if j.Engagement == nil {
		return []*Charge{&j.Charge}
	}
	return []*Charge{&j.Charge, j.Engagement}
}

// PaidFirst reports whether a charge of the job's is paid before the job goes on.
func (j *Job) PaidFirst(c *Charge) bool {
	return c.Purpose == receipts.PurposeEngagement || j.Mode == receipts.ModeHold || j.Mode == receipts.ModePrepay
}

// Charge is one payment that a job asks for, with its own quote, invoice and receipt.
type Charge struct {
	// Set when the job is added; they never change.
	Purpose     receipts.Purpose
	PriceMsats  int64
	Quote       []byte // canonical bytes
	QuoteHash   hashing.Digest
	PaymentHash payments.Hash // unique over all charges; zero for free jobs, and until SetInvoice where the wallet chooses it
	Nonce       []byte        // 16 random bytes the preimage derives from
	ExpiresAt   time.Time     // when the quote lapses unpaid

	// Filled in as it is paid; zero until then.
	BOLT11     string
	Acceptance []byte // the buyer's event
	Payment    *Payment
	Receipt    []byte // RECEIPT.json: the payment is final
	ReceiptID  string
}

// Secret is HMAC-SHA256(root, label || request id || nonce): it can be made again after a
// crash, and nobody without the provider's root secret guesses it.
func (c *Charge) Secret(root []byte, label, requestID string) (secret [sha256.Size]byte) {
	mac := hmac.New(sha256.New, root)
	mac.Write([]byte(label + requestID))
	mac.Write(c.Nonce)
	mac.Sum(secret[:0])
	return secret
}

// IsInvoiced reports whether the buyer was asked for money that is not ours for good yet.
func (c *Charge) IsInvoiced() bool { return c.BOLT11 != "" && c.Receipt == nil }

// Payment is money that arrived for a charge.
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

// PrunedPart is a part of a job, as [receipts.Parts] has it, that its provider has pruned.
type PrunedPart struct {
	Part string
	At   time.Time
}
