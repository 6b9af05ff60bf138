package job

import (
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// Errors of Debts.
var (
	// ErrCreditSpent: a job's quote uses more credit than its buyer has left.
	ErrCreditSpent = errors.New("the buyer's credit is less than the quote uses")
	// ErrRefundTaken: the refund invoice serves another debt.
	ErrRefundTaken = errors.New("the refund invoice was named before")
	// ErrRefundOfAnother: another buyer's request named the refund address first.
	ErrRefundOfAnother = errors.New("the refund address is another buyer's")
	// ErrRefundOpen: a payment of the debt is on its way, and may succeed.
	ErrRefundOpen = errors.New("a refund is on its way, and its outcome is not known")
	// ErrRefundForgotten: the wallet was told to send a refund, and does not know any
	// more what became of it: it was restored, or its payments were deleted. Nothing is
	// sent in its place but at the operator's word, which ends the attempt.
	ErrRefundForgotten = errors.New("the wallet was told to send the refund, and does not know any more what became of it, so it may be paid; it is not sent again")
	// ErrDebtSettled: nothing of the debt is left.
	ErrDebtSettled = errors.New("the debt is settled")
)

// Credit is money owed to a buyer whose prepaid job failed: what came for it.
type Credit struct {
	RequestID string
	Buyer     string
	Msats     int64
	RefundTo  string // BOLT11 or lud16 the request named, or ""
	// Refund is the attempt to pay it back, recorded with the debt. Without one
	// the debt lowers the price of the buyer's next jobs.
	Refund *Refund
}

// Refund is an attempt to pay a debt: to an invoice, or on the chain to a
// bitcoin: URI, which says what the buyer gets of Msats. From its record on the
// buyer's credit is less by Msats, until the payment failed for good; only then
// may the operator begin another.
type Refund struct {
	RequestID     string
	Attempt       int // from 1
	Buyer         string
	BOLT11        string
	PaymentHash   payments.Hash // on the chain, of the address
	Msats         int64         // taken from the buyer's credit
	FeeLimitMsats int64
	Wallet        string     // that it is sent from, as payments.Node has it; "" if that is not known
	Sent          int        // how often the wallet was about to be told to send it
	SentAt        time.Time  // when that was first
	End           *RefundEnd // nil while the outcome is not known
}

// RefundEnd is how a refund's payment ended, for good.
type RefundEnd struct {
	Attempt  int
	State    payments.PaymentState // succeeded or failed
	FeeMsats int64
	Preimage payments.Preimage // succeeded only
	// Outpoints is the output that pays, in place of the preimage on the chain.
	Outpoints string
	// UnusedMsats of what was taken for the miners were not needed: they are the
	// buyer's credit again.
	UnusedMsats int64
	Reason      string    // failed only
	At          time.Time // set by the store
}

// WriteOff is what the operator settled with the buyer by other means.
type WriteOff struct {
	Msats int64
	Note  string
	At    time.Time
}

// Debt is a credit with what became of it; Refund is the last of Attempts.
type Debt struct {
	Credit
	At       time.Time
	Attempts []Refund
	WriteOff *WriteOff // nil if there is none
	// CreditMsats is what the buyer can use at this provider now, of all debts.
	CreditMsats int64
}

// LeftMsats is what was not sent back yet. An attempt that is on its way counts
// as sent.
func (d Debt) LeftMsats() int64 {
	left := d.Msats
	for _, r := range d.Attempts {
		switch {
		case r.End == nil:
			left -= r.Msats
		case r.End.State == payments.PaymentSucceeded:
			left -= r.Msats - r.End.UnusedMsats
		}
	}
	return max(0, left)
}

// Rail is what the refund moves on.
func (r Refund) Rail() payments.Rail { return destination.RailOf(r.BOLT11) }

// SentMsats is what the payee of a refund gets of Msats: on the chain less where the
// miners' fee comes off it.
func (r Refund) SentMsats() int64 {
	if sats := destination.Sats(r.BOLT11); sats > 0 {
		return sats * 1000
	}
	return r.Msats
}
