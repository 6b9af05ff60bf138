package provider

import (
	"context"
)

// Debts is the part of a Store that keeps what is owed to buyers. A buyer's
// credit is what came for failed prepaid jobs, less what was refunded or is
// being refunded, less what quotes of jobs that have not failed were lowered by.
// It is never below zero: AddJob and Close refuse what would make it so.
type Debts interface {
	// CreditOf is what the buyer's next quote may be lowered by.
	CreditOf(ctx context.Context, buyer string) (msats int64, err error)
	// OpenRefunds lists refunds whose outcome is not known, oldest first.
	OpenRefunds(ctx context.Context) ([]Refund, error)
	// UnknownPayments lists the jobs that ended with CodePaymentUnknown, oldest first,
	// until AddLate has what came for them.
	UnknownPayments(ctx context.Context) (requestIDs []string, err error)
	// AddLate records what came for a job that has ended without a receipt: c.Msats in
	// all, or 0, of which what is a debt already is not counted twice. tell makes the
	// event that says so. It returns what is newly owed.
	AddLate(ctx context.Context, c Credit, tell func(msats int64) (OutEvent, error)) (msats int64, err error)
	// SetRefundSent records, before the wallet is told so, that it is to send an
	// attempt. ErrConflict if the attempt has ended, ErrNotFound if there is none.
	SetRefundSent(ctx context.Context, requestID string, attempt int) error
	// EndRefund records the outcome of an attempt. The same again is fine and
	// queues nothing; another is ErrConflict.
	EndRefund(ctx context.Context, requestID string, end RefundEnd, out ...OutEvent) error
	// RetryRefund records a further attempt to pay a debt and returns its number.
	// ErrRefundOpen, ErrDebtSettled, ErrRefundTaken, ErrCreditSpent.
	RetryRefund(ctx context.Context, r Refund) (attempt int, err error)
	// WriteOff records that msats of a debt were settled by other means.
	// ErrRefundOpen, ErrDebtSettled, ErrCreditSpent.
	WriteOff(ctx context.Context, requestID string, msats int64, note string, out ...OutEvent) error
	// Debts lists what was ever owed, oldest first.
	Debts(ctx context.Context) ([]Debt, error)
	// DebtOf is what was owed for one job; nil if nothing was.
	DebtOf(ctx context.Context, requestID string) (*Debt, error)
}
