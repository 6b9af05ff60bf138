package buyer

import (
	"context"
	"errors"

	"github.com/lightwork-market/lightwork/buyer/internal/flow"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// What a purchase is, for all that have to do with one: package purchase says more.
type (
	// Purchase is one job bought, with all that became durable about it.
	Purchase = purchase.Purchase
	// State is where a purchase stands.
	State = purchase.State
	// Charge is one thing that is paid for, with all that proves it.
	Charge = purchase.Charge
	// Attempt is the one outbound payment of a purchase for a purpose.
	Attempt = purchase.Attempt
	// Membership says which panel a purchase belongs to.
	Membership = purchase.Membership
	// Progress is one thing that happened to a purchase, for people and logs.
	Progress = purchase.Progress
	// Limits are the budget a reservation must fit in; 0 means no limit.
	Limits = purchase.Limits
	// Budget is the ledger's view of one day.
	Budget = purchase.Budget
	// BudgetError says which limit a payment would break.
	BudgetError = purchase.BudgetError
	// MismatchError says what in an event from the provider is not what it must be.
	MismatchError = purchase.MismatchError

	// CreditWay is what a provider says of what it owes us: that it does, or that a
	// quote is lowered by it.
	CreditWay = purchase.CreditWay

	view = purchase.View
)

// The states of a purchase.
const (
	StateRequested = purchase.StateRequested
	StatePaying    = purchase.StatePaying
	StatePaid      = purchase.StatePaid
	StateDone      = purchase.StateDone
	StateFailed    = purchase.StateFailed
	StateCanceled  = purchase.StateCanceled
)

// Codes begin the reason of a purchase that ended without a payment where the
// buyer's own program gives it; a provider's reasons begin with codes of its own.
const (
	CodeNoAnswer    = purchase.CodeNoAnswer
	CodeBadOffer    = purchase.CodeBadOffer
	CodeUnmet       = purchase.CodeUnmet
	CodeNotApproved = purchase.CodeNotApproved
	CodeOverBudget  = purchase.CodeOverBudget
	CodeNoWallet    = purchase.CodeNoWallet
	CodeNoPayment   = purchase.CodeNoPayment
)

// The ways of credit.
const (
	CreditOwed = purchase.CreditOwed // of a purchase that failed
	CreditUsed = purchase.CreditUsed // the price of this one is less by it
)

// RefundTarget is what a refund of the purchase would come to, the same for all that
// name it, in whatever spelling; "" if its request names nothing that our wallet
// could know.
func RefundTarget(p Purchase) string { return refund.Target(p) }

// RefundDue reports whether money that was paid for the purchase should come
// back to an invoice or address that its request named, and has not been seen to.
func RefundDue(p Purchase) bool { return refund.Due(p) }

// Errors of a [Store].
var (
	ErrNotFound  = purchase.ErrNotFound
	ErrDuplicate = purchase.ErrDuplicate
	// ErrConflict: the step does not fit the purchase's state. Nothing was written.
	ErrConflict = purchase.ErrConflict
	// ErrSecondPayment: another attempt for the same (request, provider,
	// purpose) exists, or the payment hash was seen before.
	ErrSecondPayment = purchase.ErrSecondPayment
	// ErrNeverSent: the purchase was canceled before any wallet was told to pay for it.
	ErrNeverSent = purchase.ErrNeverSent
	// ErrRefundOfAnother: the money that came to an invoice or address is recorded as
	// the refund of another purchase that named the same.
	ErrRefundOfAnother = purchase.ErrRefundOfAnother
)

// What stands against a payment that was begun.
var (
	// ErrOtherWallet: a payment was begun with another wallet than the configured one,
	// which can neither pay it nor say what became of it.
	ErrOtherWallet = pay.ErrOtherWallet
	// ErrPaymentForgotten: the wallet was told to pay, and does not know any more what
	// became of it: it may be paid, so nothing is paid in its place.
	ErrPaymentForgotten = pay.ErrForgotten
)

// ErrPanelOpen: the purchase belongs to a panel that has not decided whether it is
// paid; whoever follows the panel follows the purchase.
var ErrPanelOpen = errors.New("this purchase belongs to a panel that has not decided yet")

// Store keeps all that a buyer must not forget: the sum of what its stages need, each of
// which names its own part. Every method that changes anything is one durable
// transaction.
type Store interface {
	PlacingStore
	OrderStore
	flow.Store
	offer.Store
	pay.Store
	result.Store
	proof.Store
	refund.Store
}

// PlacingStore keeps what is placed, and remembers what came of it.
type PlacingStore interface {
	AddPurchase(ctx context.Context, p Purchase) error
	// History says what came of the purchases from each provider (x-only hex).
	History(ctx context.Context) (map[string]History, error)
}
