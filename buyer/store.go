package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// State is where a purchase stands.
//
//	requested -> quoted -> paying -> paid -> done
//	requested -> processing ... -> done                  (free; postpay pays after the result)
//	any open state -> failed | canceled
//
// An engagement fee is paid first: requested -> paying -> requested.
//
// Result and receipt arrive when they arrive; they are fields, not states. A
// purchase is done when everything that its mode promises is stored.
type State string

// The states of a purchase.
const (
	StateRequested State = "requested" // the request is signed and stored, maybe published
	StatePaying    State = "paying"    // budget reserved, acceptance signed, payment begun or about to be
	StatePaid      State = "paid"      // the payment succeeded: preimage stored, budget debited
	StateDone      State = "done"
	StateFailed    State = "failed"
	StateCanceled  State = "canceled"
)

// Terminal reports whether nothing more happens to a purchase in this state.
func (s State) Terminal() bool {
	return s == StateDone || s == StateFailed || s == StateCanceled
}

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

// Errors of a Store.
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
)

// BudgetError says which limit a payment would break.
type BudgetError struct {
	Limit     string // "job", "day" or "provider"
	WantMsats int64  // amount + fee limit
	FreeMsats int64
}

// Purchase is one job bought, with all that became durable about it.
type Purchase struct {
	RequestID string
	Provider  string // x-only hex key of the chosen provider
	SchemaID  string
	JobHash   hashing.Digest
	Request   []byte // signed request event
	MaxMsats  int64
	Relays    []string
	PayeeNode string // announced node key, "" if none was
	AddedAt   time.Time
	// Hidden are the request's encrypted tags in the clear, as a JSON array; nil
	// where the request is.
	Hidden []byte
	// Inputs are the events that the request names as its inputs, as INPUTS.jsonl
	// has them; nil where it names none.
	Inputs []byte
	// Plain: the provider may be a program that knows NIP-90 alone. It may be
	// paid without a quote, and nothing that it sends is proved.
	Plain bool
	// Member is set where a panel decides whether the purchase is paid.
	Member *Membership
	// EngagementMax is the most that is paid for the attempt, in msats: the fee
	// that was announced for the job. 0: none.
	EngagementMax int64

	State   State
	Reason  string
	StateAt time.Time

	// Charge is what is paid for the result. Its fields are empty before an offer is
	// accepted; of a plain NIP-90 provider's invoice there is no quote.
	Charge
	// Engagement is what is paid for the attempt at it, nil unless a fee was accepted.
	// It is paid before: while that is under way the purchase is paying, and after it
	// requested again.
	Engagement *Charge

	Cancel          []byte // signed kind 5, if we asked to cancel
	SealedEvent     []byte // a result in boxes, perhaps not opened yet
	ResultEvent     []byte
	Output          []byte
	SettledTooEarly bool  // money moved before any result was seen
	RefundMsats     int64 // what came back of a prepayment; 0 if nothing is known to have
}

// Charge is one thing that is paid for, with all that proves it: the provider's
// quote, our acceptance, the one payment, and the provider's receipt.
type Charge struct {
	Quote        []byte // canonical bytes of the quote we accepted
	BOLT11       string
	Acceptance   []byte // signed event
	Attempt      *Attempt
	Payment      *payments.Payment // nil while the outcome is not known
	ReceiptEvent []byte
	ReceiptID    string
}

// Attempt is the one outbound payment of a purchase for a purpose.
type Attempt struct {
	PaymentHash   payments.Hash
	Purpose       string
	AmountMsats   int64
	FeeLimitMsats int64
	RuleID        string // approval rule; "" if a person approved
	Wallet        string // that pays, as payments.Node has it; "" if that is not known
	ReservedAt    time.Time
	// Sent is how often the wallet was, or was about to be, told to pay.
	Sent int
}

// Limits are the budget a reservation must fit in; 0 means no limit.
type Limits struct {
	DayMsats      int64
	ProviderMsats int64 // per provider and day
	FeeMsats      int64 // routing fees of one payment
}

// Budget is the ledger's view of one day.
type Budget struct {
	Day           string // 2006-01-02, UTC
	SpentMsats    int64
	ReservedMsats int64
}

// Store keeps all that a buyer must not forget. Every method that changes anything is
// one durable transaction.
type Store interface {
	PurchaseStore
	SpendingStore
	DeliveryStore
	ClosingStore
	OrderStore
}

// Evidence is what proves purchases, from a store that may be open for reading only.
type Evidence interface {
	Purchases(ctx context.Context, limit int) ([]Purchase, error)
	Feedback(ctx context.Context, requestID string) ([][]byte, error)
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
}

// PurchaseStore keeps purchases, and remembers what came of them.
type PurchaseStore interface {
	AddPurchase(ctx context.Context, p Purchase) error
	Purchase(ctx context.Context, requestID string) (Purchase, error)
	// Purchases lists purchases, newest first; at most limit if limit > 0.
	Purchases(ctx context.Context, limit int) ([]Purchase, error)
	// History says what came of the purchases from each provider (x-only hex).
	History(ctx context.Context) (map[string]History, error)
}

// SpendingStore keeps what purchases cost, within the budget.
type SpendingStore interface {
	// Reserve is for the attempt of either purpose. It moves requested -> paying: in one transaction it stores quote,
	// invoice and acceptance and reserves amount + fee limit against the
	// purchase's own maximum and the limits; a charge for a plain NIP-90 provider's
	// invoice has neither quote nor acceptance. *BudgetError, ErrSecondPayment.
	// The budget day is the day of the attempt's ReservedAt (UTC).
	Reserve(ctx context.Context, requestID string, c Charge, l Limits) error
	// Fits is what Reserve would say of the limits now, for a purchase of that
	// maximum: *BudgetError.
	Fits(ctx context.Context, provider string, maxMsats int64, a Attempt, l Limits) error
	// SetSent records, before the wallet is told so, that it is to pay the attempt
	// with this hash. Each time counts. ErrNeverSent if the purchase was canceled
	// before the first time, so that it is not paid by anybody.
	SetSent(ctx context.Context, requestID string, hash payments.Hash) error
	// Paid moves paying -> paid, or after an engagement fee -> requested: the
	// reservation becomes spending of amount + fee; the rest is free again. Repeating it with the same payment is fine.
	Paid(ctx context.Context, requestID string, p payments.Payment) error
	// Unpaid records that the payment failed for good: the reservation is
	// released and the purchase moves to failed or canceled with the reason.
	Unpaid(ctx context.Context, requestID string, p payments.Payment, to State, reason string) error
	// GiveUp takes a purchase that is paying off the open ones, with the reason;
	// all else of it stays, the reservation too.
	GiveUp(ctx context.Context, requestID, reason string) error
	// BudgetOf gives the ledger of the day of at (UTC).
	BudgetOf(ctx context.Context, at time.Time) (Budget, error)
}

// DeliveryStore keeps what providers sent, as evidence.
type DeliveryStore interface {
	// AddFeedback keeps a 7000 event; a known id is fine.
	AddFeedback(ctx context.Context, requestID, eventID string, event []byte, at time.Time) error
	Feedback(ctx context.Context, requestID string) ([][]byte, error)
	// SetResult keeps the verified result event, its canonical output and the
	// contents it refers to; the first stays. early says that money moved first.
	SetResult(ctx context.Context, requestID string, event, output []byte, contents [][]byte, early bool) error
	// SetSealed keeps a result event whose result is in boxes, and the boxes;
	// the first stays.
	SetSealed(ctx context.Context, requestID string, event []byte, contents [][]byte) error
	// SetReceipt keeps the receipt event of the charge for a purpose; the first stays.
	// ErrConflict for an engagement fee that was not accepted.
	SetReceipt(ctx context.Context, requestID string, purpose receipts.Purpose, receiptID string, event []byte) error
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
}

// ClosingStore keeps how purchases end, and what comes back of them.
type ClosingStore interface {
	// SetCancel keeps our signed cancellation request.
	SetCancel(ctx context.Context, requestID string, event []byte) error
	// SetRefund records that msats of a failed prepayment came back; the first
	// stays. The budget of the day is not given them back. ErrRefundOfAnother if
	// another purchase with the same RefundTarget has its refund already.
	SetRefund(ctx context.Context, requestID string, msats int64) error
	// SetCredit keeps what the provider said that it owes of the purchase, or that
	// its quote is lowered by, in msats above 0; the first of each stays.
	SetCredit(ctx context.Context, requestID string, way CreditWay, msats int64) error
	// Close moves to done, failed or canceled. A purchase with an unresolved
	// reservation cannot be closed: ErrConflict.
	Close(ctx context.Context, requestID string, to State, reason string) error
	// CloseUnpaid is Close for a purchase whose result nobody pays for: ErrConflict
	// once its payment was begun.
	CloseUnpaid(ctx context.Context, requestID string, to State, reason string) error
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the %s budget has %d msats left, this payment may take %d msats with fees", e.Limit, e.FreeMsats, e.WantMsats)
}
