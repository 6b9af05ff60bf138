package provider

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/intake"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/provider/internal/run"
)

// Store keeps jobs: what each stage asks of a database, and what is asked for the steps
// of a job. Every method that changes anything is one durable
// transaction: when it returns nil, all it names is on disk; otherwise nothing
// is. Queued events ride in the same transaction.
type Store interface {
	publish.Store
	announce.Store
	admission.Store
	restore.Store
	refund.Store
	charge.Store
	run.Store
	deliver.Store
	intake.Store
	Debts

	// JobByPaymentHash finds the job an invoice belongs to.
	JobByPaymentHash(ctx context.Context, hash payments.Hash) (Job, error)
	// Jobs lists jobs, newest first; at most limit if limit > 0.
	Jobs(ctx context.Context, limit int) ([]Job, error)

	// Close moves an open job to a terminal state without a receipt (failed,
	// canceled, expired; succeeded for free jobs). The thread ends. credit, if
	// not nil, is recorded as owed, with its refund. ErrRefundTaken. The result of a
	// job that did not succeed is offered to relays no more.
	Close(ctx context.Context, requestID string, to State, reason Reason, credit *Credit, out ...OutEvent) error

	// UsePolicy stores the policy manifest that is sold under from now on.
	UsePolicy(ctx context.Context, manifest []byte) error

	// PendingEvents lists queued events not yet confirmed by all their relays
	// and younger than maxAge, oldest first.
	PendingEvents(ctx context.Context, maxAge time.Duration, limit int) ([]Pending, error)
	// Unsent counts queued events younger than maxAge that fewer relays confirmed
	// than must.
	Unsent(ctx context.Context, maxAge time.Duration) (int, error)
}

// Debts is the part of a Store that keeps what is owed to buyers. A buyer's
// credit is what came for failed prepaid jobs, less what was refunded or is
// being refunded, less what quotes of jobs that have not failed were lowered by.
// It is never below zero: AddJob and Close refuse what would make it so.
type Debts interface {
	// UnknownPayments lists the jobs that ended with CodePaymentUnknown, oldest first,
	// until AddLate has what came for them.
	UnknownPayments(ctx context.Context) (requestIDs []string, err error)
	// AddLate records what came for a job that has ended without a receipt: c.Msats in
	// all, or 0, of which what is a debt already is not counted twice. tell makes the
	// event that says so. It returns what is newly owed.
	AddLate(ctx context.Context, c Credit, tell func(msats int64) (OutEvent, error)) (msats int64, err error)
	// Debts lists what was ever owed, oldest first.
	Debts(ctx context.Context) ([]Debt, error)
}
