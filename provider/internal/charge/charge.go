// Package charge has what a job's buyer is asked to pay: the quotes, the invoices, the
// payments that come for them, the receipts, and what has to go back.
package charge

import (
	"context"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// Store keeps charges.
type Store interface {
	// CreditOf is what the buyer's next quote may be lowered by.
	CreditOf(ctx context.Context, buyer string) (msats int64, err error)
	// SetInvoice records the invoice of a charge that has none (the same invoice
	// again is fine and queues nothing). chosen is its payment hash where the wallet
	// chose that, zero where the charge has one; ErrConflict if another charge has it.
	// An engagement fee is paid while its job is quoted; afterwards each step towards
	// it is ErrConflict, as it is for a job that asks none.
	SetInvoice(ctx context.Context, requestID string, purpose receipts.Purpose, bolt11 string, chosen payments.Hash, out ...job.OutEvent) error
	// SetAcceptance records the buyer's acceptance of a charge; the first stays.
	SetAcceptance(ctx context.Context, requestID string, purpose receipts.Purpose, event []byte) error
	// SetPaid moves quoted -> paid: payment, directive and thread (Active) at
	// once. UNIQUE(payment hash) and the directive's key are consumed here.
	SetPaid(ctx context.Context, requestID string, p job.Payment, d job.Directive, thread string) error
	// Settle records the final payment of a charge and issues its receipt: issue is
	// called inside the transaction with the receipt's sequence (from 1, without gaps)
	// and the hash of the receipt before it. That of the result moves delivering ->
	// succeeded, and the thread completes; after an engagement fee the job stays quoted.
	Settle(ctx context.Context, requestID string, purpose receipts.Purpose, p job.Payment, issue func(job.Issue) (job.Issued, error)) error
}

// Config is what a Collector needs.
type Config struct {
	Store     Store
	Wallet    payments.Payee // nil: only free jobs
	Publisher *publish.Publisher
	Log       *slog.Logger
	// MakeInvoice makes the invoices of prepay and postpay where the wallet chooses
	// their payment hashes; nil: we choose them.
	MakeInvoice func(ctx context.Context, in payments.NewInvoice, since time.Time) (payments.Invoice, error)

	Tell  func(job.Event)
	Leave func(requestID string) // the job may wait for long, but in nobody's way
	// Owe is what is owed to the buyer of a job, nil if nothing is, and how the buyer is
	// told of it.
	Owe  func(j *openjob.Job, msats int64, why string) (owed *job.Credit, text string)
	Node func() payments.Node // of the wallet

	Key         string              // of the provider
	RootSecret  []byte              // preimages derive from it
	Retention   *receipts.Retention // that quotes promise; nil: none
	ReceiptKind int
	Relays      func() []string // that the events of a new job go to
	LeastMsats  int64           // the smallest payment that the wallet can take
	Times       Times
}

// Times are the limits of what is waited for.
type Times struct {
	Postpay     time.Duration // a result that is paid afterwards can be paid
	LookupEvery time.Duration // an invoice is looked up without a hint
	HoldMargin  time.Duration // between the end of the work and that of the held payment
	Unconfirmed time.Duration // past its quote, for a payment on the chain to be confirmed
	Silence     time.Duration // for a wallet that does not answer
}

// Collector quotes jobs and collects what they cost.
type Collector struct {
	cfg Config
	log *slog.Logger
}

// New makes a Collector.
func New(cfg Config) *Collector { return &Collector{cfg: cfg, log: cfg.Log} }

// Bill is what one job asks its buyer to pay. Its job's goroutine alone uses it.
type Bill struct {
	*Collector
	job *openjob.Job

	// graceEnds is until when the receipt of each charge waits for its acceptance.
	graceEnds map[receipts.Purpose]time.Time
	// invoiceBy is until when the wallet is asked for an invoice that it fails to make.
	invoiceBy time.Time
	settling  settling
	// silentSince is when the wallet last began not to answer about the job's invoices,
	// zero while it answers.
	silentSince time.Time
}

// Bill is the bill of a job.
func (c *Collector) Bill(j *openjob.Job) *Bill {
	return &Bill{Collector: c, job: j, graceEnds: map[receipts.Purpose]time.Time{}}
}

// Preimage is the secret of a charge, which settles its invoice.
func (c *Collector) Preimage(requestID string, of *job.Charge) payments.Preimage {
	label := "lightwork/preimage/v1"
	if of.Purpose == receipts.PurposeEngagement {
		label = "lightwork/preimage/engagement/v1"
	}
	return of.Secret(c.cfg.RootSecret, label, requestID)
}

// ChoosesHash reports whether a quote in this mode names no payment hash, since the
// wallet chooses it with the invoice. The description hash of that invoice is the
// quote's hash, so the quote is there before. Such a quote is for prepay and for
// postpay in the clear: what is held, and what is sealed, needs a preimage that is ours.
func (c *Collector) ChoosesHash(mode receipts.Mode) bool {
	return c.cfg.MakeInvoice != nil && (mode == receipts.ModePrepay || mode == receipts.ModePostpay)
}

// walletChose reports whether the quote of a charge names no payment hash: the charge
// has one once it has its invoice.
func (b *Bill) walletChose(c *job.Charge) bool {
	q := b.job.QuoteOf(c)
	return q.Mode != "" && q.Mode != receipts.ModeFree && q.PaymentHash == nil
}

// feeStays reports whether a fee that was paid pays for something: an attempt
// that was begun, and that the buyer, its request or its payment ended.
func feeStays(j *job.Job, ended job.Code) bool {
	switch ended {
	case job.CodeCanceled, job.CodeStopped, job.CodeExpectationNotMet, job.CodeUnpaid, job.CodePaymentLost:
		return j.Run > 0
	}
	return false
}

// FeeOwed is the settled fee of a job that ends so, if it is the buyer's again.
func FeeOwed(j *job.Job, ended job.Code) int64 {
	if j.Engagement == nil || j.OwesFee() || feeStays(j, ended) {
		return 0
	}
	return j.Engagement.Payment.PaidMsats
}

// FeeKept is the settled fee of a job that ends so, if it stays paid.
func FeeKept(j *job.Job, ended job.Code) int64 {
	if j.Engagement == nil || j.OwesFee() || !feeStays(j, ended) {
		return 0
	}
	return j.Engagement.Payment.PaidMsats
}
