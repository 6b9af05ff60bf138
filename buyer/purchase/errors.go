package purchase

import (
	"errors"
	"fmt"
)

// Codes begin the reason of a purchase that ended without a payment where the
// buyer's own program gives it; a provider's reasons begin with codes of its own.
const (
	CodeNoAnswer    = "no_answer"           // the provider did not answer, or fell silent
	CodeBadOffer    = "bad_offer"           // its quote or invoice is not what was asked for or announced
	CodeUnmet       = "expectation_not_met" // the result is not what the request says is paid for
	CodeNotApproved = "not_approved"        // the approval rules, or a person
	CodeOverBudget  = "over_budget"
	CodeNoWallet    = "no_wallet"
	CodeNoPayment   = "payment_failed" // our wallet could not pay, or the payment came back
)

// Errors of a store of purchases.
var (
	ErrNotFound  = errors.New("no such purchase")
	ErrDuplicate = errors.New("purchase already known")
	// ErrConflict: the step does not fit the purchase's state. Nothing was written.
	ErrConflict = errors.New("step does not fit the purchase's state")
	// ErrSecondPayment: another attempt for the same (request, provider,
	// purpose) exists, or the payment hash was seen before.
	ErrSecondPayment = errors.New("a payment for this job was already begun")
	// ErrNeverSent: the purchase was canceled before any wallet was told to pay for it.
	ErrNeverSent = errors.New("the purchase was canceled before its payment was sent")
	// ErrRefundOfAnother: the money that came to an invoice or address is recorded as
	// the refund of another purchase that named the same.
	ErrRefundOfAnother = errors.New("what came there is the refund of another purchase")
)

// BudgetError says which limit a payment would break.
type BudgetError struct {
	Limit     string // "job", "day" or "provider"
	WantMsats int64  // amount + fee limit
	FreeMsats int64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the %s budget has %d msats left, this payment may take %d msats with fees", e.Limit, e.FreeMsats, e.WantMsats)
}

// MismatchError says what in an event from the provider is not what it must
// be. Nothing is paid or believed because of such an event.
type MismatchError struct {
	What string // "quote", "invoice" or "result"
	Why  string
}

func (e *MismatchError) Error() string { return e.What + " mismatch: " + e.Why }

// Mismatch is a [*MismatchError]: what is not what it must be, and why.
func Mismatch(what, why string) error { return &MismatchError{What: what, Why: why} }
