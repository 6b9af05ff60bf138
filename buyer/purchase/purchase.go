// Package purchase has what all stages of a buyer and its store share: a purchase with
// its states, its charges, the terms of its request, and the errors of its steps. It
// knows no relay, no wallet and no database.
package purchase

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

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

// FailureUnsure reports whether a failed payment may have gone through all the same:
// the wallet was told to pay more than once, and speaks of the last time.
func (a *Attempt) FailureUnsure(pay payments.Payment) bool {
	return pay.State == payments.PaymentFailed && a.Sent > 1
}

// Membership says which panel a purchase belongs to: somebody else decides whether
// it is paid.
type Membership struct {
	Panel string
	Open  bool // it has not decided
	// Revealed is the agreement hash that the provider revealed before it was paid;
	// nil where nothing was. A result that is opened must have it.
	Revealed *hashing.Digest
}

// ChargeFor is what is paid for a purpose; nil for a fee that was not accepted.
func (p *Purchase) ChargeFor(purpose receipts.Purpose) *Charge {
	if purpose == receipts.PurposeEngagement {
		return p.Engagement
	}
	return &p.Charge
}

// Due is the payment that is under way, or was last, with its invoice: the result's
// once there is one, else the fee's; nil before any.
func (p Purchase) Due() (a *Attempt, bolt11 string) {
	if p.Attempt == nil && p.Engagement != nil {
		return p.Engagement.Attempt, p.Engagement.BOLT11
	}
	return p.Attempt, p.BOLT11
}

// EngagementMsats is what the fee for the attempt has cost, routing apart; 0 without
// one.
func (p Purchase) EngagementMsats() int64 {
	if p.Engagement == nil {
		return 0
	}
	return p.Engagement.Attempt.AmountMsats
}

// EngagementSpent is what the fee for the attempt has cost in all, as far as that is
// known.
func (p Purchase) EngagementSpent() int64 {
	if p.Engagement == nil || p.Engagement.Payment == nil {
		return p.EngagementMsats()
	}
	return p.Engagement.Payment.AmountMsats + p.Engagement.Payment.FeeMsats
}

// Delivery is the one in the quote that we accepted, "" before there is one.
func (p Purchase) Delivery() receipts.Delivery {
	if p.Quote == nil {
		return ""
	}
	q, err := receipts.ParseQuote(p.Quote)
	if err != nil {
		return ""
	}
	return q.Delivery
}

// GivenUp reports that nobody is expected to know what comes of the payment.
func (p Purchase) GivenUp() bool { return p.State == StatePaying && p.Reason != "" }

// GivenUpMsats is what a purchase that was given up may have cost; 0 of any other.
func (p Purchase) GivenUpMsats() int64 {
	if !p.GivenUp() {
		return 0
	}
	due, _ := p.Due()
	return due.AmountMsats + due.FeeLimitMsats
}

// CanceledText says of a canceled purchase what was paid for it.
func (p Purchase) CanceledText() string {
	if p.Engagement == nil {
		return "canceled before payment"
	}
	return "canceled before payment of the result; the engagement fee was paid"
}

// Unserved reports whether a purchase failed by its provider's doing before anything
// was paid, so that another may be asked. Of one that was canceled nobody else is.
func (p Purchase) Unserved() bool {
	paid := func(pay *payments.Payment) bool { return pay != nil && pay.State == payments.PaymentSucceeded }
	if p.State != StateFailed || p.Cancel != nil || paid(p.Payment) || p.Engagement != nil && paid(p.Engagement.Payment) {
		return false
	}

	if due, _ := p.Due(); due != nil && p.Payment != nil && strings.Contains(p.Payment.FailureReason, payments.ErrInsufficientFunds.Error()) {
		return false // whoever is asked
	}
	code, _, _ := strings.Cut(p.Reason, ":")
	return !slices.Contains([]string{CodeUnmet, CodeNotApproved, CodeOverBudget, CodeNoWallet}, code)
}

// Bound reports whether the result's signed event names the job and the output
// by their hashes. One that does not answers the request, and no more is known.
func (p Purchase) Bound() bool {
	var ev nostr.Event
	if p.ResultEvent == nil || json.Unmarshal(p.ResultEvent, &ev) != nil {
		return false
	}
	if domain.Demand(domain.Result, ev.Tags) != nil {
		return false
	}
	if ev.Tags.Find("commitment") != nil {
		return true // opened and checked before it was stored
	}

	job, output := ev.Tags.Find("job_hash"), ev.Tags.Find("output_hash")
	return job != nil && output != nil && job[1] == p.JobHash.String() && output[1] == hashing.Bytes(p.Output).String()
}

// NoQuote is said with every payment that only the provider's word binds.
const NoQuote = "no quote: nothing binds this payment to the job"

// Unproved lists the claims of a receipt that a finished purchase without one
// leaves open, with the reason; nil if it has its receipt or is not done.
func (p Purchase) Unproved() []receipts.Claim {
	if p.State != StateDone || p.ReceiptID != "" || p.Attempt == nil && p.Bound() {
		return nil // proved, or free
	}

	open := func(name, why string) receipts.Claim {
		return receipts.Claim{Name: name, State: receipts.NotProvable, Reason: why}
	}
	list := []receipts.Claim{open(receipts.ClaimSignature, "the provider signed no receipt")}
	if !p.Bound() {
		list = append(list, open(receipts.ClaimResult, "its event is signed and answers the request, but names neither job nor output by hash"))
	}
	list = append(list, open(receipts.ClaimTrajectory, "no record of the work came with it"))
	if p.Attempt != nil && p.Quote == nil {
		list = append(list, open(receipts.ClaimInvoiceCommits, NoQuote))
	}
	return list
}

// Job reads the request that a purchase began with.
func (p Purchase) Job() (*schemas.Schema, *schemas.Request, error) { return TermsOf(p).Job() }

// Progress is one thing that happened to a purchase, for people and logs.
type Progress struct {
	At    time.Time `json:"at"`
	Who   string    `json:"who"`  // "buyer", "provider" or "wallet"
	What  string    `json:"what"` // one word for what happened, such as "quoted"
	Msats int64     `json:"msats,omitempty"`
	Hash  string    `json:"hash,omitempty"`
	Text  string    `json:"text,omitempty"`
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

// CreditWay is what a provider says of what it owes us: that it does, or that a
// quote is lowered by it. It is its own word, which it signed: it tells who owes
// from who took the money and was silent, and nothing is paid by it.
type CreditWay string

// The ways of credit.
const (
	CreditOwed CreditWay = "owed" // of a purchase that failed
	CreditUsed CreditWay = "used" // the price of this one is less by it
)

// Award is the decision to pay one charge of a purchase. All of it becomes durable
// together.
type Award struct {
	RequestID string
	Charge
}

// MaxEventBytes bounds a stored event that is read again.
const MaxEventBytes = 1 << 20

// EventOf reads an event that was stored.
func EventOf(raw []byte) (ev nostr.Event, err error) {
	if err = json.Unmarshal(raw, &ev); err != nil {
		err = fmt.Errorf("stored event: %w", err)
	}
	return ev, err
}
