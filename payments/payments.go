// Package payments holds the words that every Lightning backend and its users
// share: hashes, preimages, invoices, payments and the errors they end in.
//
// A backend (payments/lnd, nwc, cashu, onchain and playnet) has the methods
// Node, CreateInvoice, LookupInvoice, SettleInvoice, CancelInvoice,
// WatchInvoices, SendPayment, LookupPayment, TrackPayment and Balance; a user
// declares the subset that it calls. payments/conformance states what they
// promise.
//
// Amounts are whole millisatoshi (msats) from 0 to MaxMsats. Times are UTC.
// The package links no network code, so that the offline verifier may use it.
package payments

import (
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// MaxMsats bounds every amount: 2^53-1, the largest integer that every JSON
// reader keeps whole.
const MaxMsats = 1<<53 - 1

// CheckMsats refuses an amount outside 0..MaxMsats.
func CheckMsats(msats int64) error {
	if msats < 0 || msats > MaxMsats {
		return fmt.Errorf("%w: %d msats", ErrAmount, msats)
	}
	return nil
}

// Node is the Lightning node behind a wallet. PubKey is its 33-byte compressed
// secp256k1 key in lower-case hex: the payee that its invoices name.
type Node struct {
	PubKey  string  `json:"pub_key"`
	Network Network `json:"network"`
	Alias   string  `json:"alias"`
	// Account tells the wallets on one node apart; "" where the node is one wallet.
	Account string `json:"account,omitempty"`
}

// Wallet names the wallet itself, for as long as it exists: payments that it has
// begun are known to no other.
func (n Node) Wallet() string {
	return strings.TrimSpace(strings.Join([]string{string(n.Network), n.PubKey, n.Account}, " "))
}

// NewInvoice says what CreateInvoice is to make.
//
// Without Hold the wallet settles the invoice by itself when it is paid, so
// Preimage is needed and PaymentHash may be zero or must equal Preimage.Hash().
// With Hold only PaymentHash is needed; the caller keeps the preimage and
// passes it to SettleInvoice.
type NewInvoice struct {
	Preimage        Preimage
	PaymentHash     Hash
	Hold            bool
	AmountMsats     int64          // 1..MaxMsats
	DescriptionHash hashing.Digest // goes into the invoice's h field
	Expiry          time.Duration  // whole seconds, at least one
}

// Hash returns the payment hash the invoice is to have. It refuses a request
// whose hash and preimage do not belong together, a missing one, a bad amount
// and a bad expiry with ErrBadRequest or ErrAmount.
func (n NewInvoice) Hash() (Hash, error) {
	if n.AmountMsats < 1 {
		return Hash{}, fmt.Errorf("%w: %d msats", ErrAmount, n.AmountMsats)
	}
	if err := CheckMsats(n.AmountMsats); err != nil {
		return Hash{}, err
	}
	if n.Expiry < time.Second || n.Expiry%time.Second != 0 {
		return Hash{}, fmt.Errorf("%w: expiry %v is not a positive number of seconds", ErrBadRequest, n.Expiry)
	}
	if n.Hold && n.Preimage.IsZero() {
		if n.PaymentHash.IsZero() {
			return Hash{}, fmt.Errorf("%w: a hold invoice needs a payment hash", ErrBadRequest)
		}
		return n.PaymentHash, nil
	}
	if n.Preimage.IsZero() {
		// An all-zero preimage is no secret and no proof of payment.
		return Hash{}, fmt.Errorf("%w: the preimage is missing", ErrBadRequest)
	}

	hash := n.Preimage.Hash()
	if !n.PaymentHash.IsZero() && n.PaymentHash != hash {
		return Hash{}, fmt.Errorf("%w: the preimage is not that of the payment hash", ErrBadRequest)
	}
	return hash, nil
}

// InvoiceState is where an invoice stands.
type InvoiceState string

// The states of an invoice. Open may become any other; Held becomes Settled or
// Canceled; those two are final. An invoice that expired unpaid is Canceled.
const (
	InvoiceOpen     InvoiceState = "open"
	InvoiceHeld     InvoiceState = "held"
	InvoiceSettled  InvoiceState = "settled"
	InvoiceCanceled InvoiceState = "canceled"
)

// On the chain an open invoice may also be seen in part, or in full and not yet
// confirmed; a reorganisation of the chain can bring back every state but the
// two final ones. A canceled invoice may have PaidMsats there: what came in part,
// or late, and is confirmed.
const (
	InvoicePartial InvoiceState = "partial"
	InvoicePending InvoiceState = "pending"
)

// Terminal reports whether the state can change no more.
func (s InvoiceState) Terminal() bool { return s == InvoiceSettled || s == InvoiceCanceled }

// Invoice is an invoice of the wallet's own, as the wallet sees it now.
type Invoice struct {
	BOLT11      string       `json:"bolt11"`
	PaymentHash Hash         `json:"payment_hash"`
	AmountMsats int64        `json:"amount_msats"`
	State       InvoiceState `json:"state"`
	// PaidMsats is what arrived (held or settled), 0 before.
	PaidMsats int64 `json:"paid_msats"`
	// SettleBy is set while held: past it the wallet may have given the money
	// back, so settle or cancel before.
	SettleBy time.Time `json:"settle_by,omitzero"`
	// Preimage is set once settled where the wallet chose it, and tells it.
	Preimage Preimage `json:"-"`
	// SettledAt is set once settled.
	SettledAt time.Time `json:"settled_at,omitzero"`
	// Final is set when a settled invoice's money is ours for good: on lnd
	// the HTLC's resolution is known, not only the preimage handed out.
	Final bool `json:"final"`
	// LostMsats is what the wallet had called settled, and what went back to the
	// payer all the same (lnd#7463): PaidMsats is without it. An invoice that lost
	// everything is Canceled.
	LostMsats int64 `json:"lost_msats,omitempty"`
	// Outpoints are the outputs on the chain that paid, as "txid:index,...", in
	// their order as text, at most MaxOutpoints; empty on other rails.
	Outpoints string `json:"outpoints,omitempty"`
}

// PaymentState is where an outgoing payment stands.
type PaymentState string

// The states of a payment. PaymentUnknown means that the backend could not
// tell: it is neither a success nor a failure, and the money stays reserved.
const (
	PaymentUnknown   PaymentState = "unknown"
	PaymentInFlight  PaymentState = "in_flight"
	PaymentSucceeded PaymentState = "succeeded"
	PaymentFailed    PaymentState = "failed"
)

// Terminal reports whether the state can change no more for this attempt.
func (s PaymentState) Terminal() bool { return s == PaymentSucceeded || s == PaymentFailed }

// Payment is an outgoing payment of the wallet. Preimage is set once it
// succeeded, FailureReason once it failed (plain text, for people). FeeMsats
// is the fee paid, or reserved while in flight; of a failed payment it is what the
// attempt has cost all the same, which only a mint charges. Warning tells people why one in
// flight may never end, where the backend can see that; it changes nothing.
type Payment struct {
	Hash          Hash         `json:"hash"`
	State         PaymentState `json:"state"`
	AmountMsats   int64        `json:"amount_msats"`
	FeeMsats      int64        `json:"fee_msats"`
	Preimage      Preimage     `json:"preimage,omitzero"`
	FailureReason string       `json:"failure_reason,omitempty"`
	Warning       string       `json:"warning,omitempty"`
	// Outpoints is the output that pays, where that is on the chain; such a
	// payment has no Preimage.
	Outpoints string `json:"outpoints,omitempty"`
}

// Shown reports whether a payment succeeded and its wallet shows that: by the
// preimage, or on the chain by the output.
func (p Payment) Shown() bool {
	switch {
	case p.State != PaymentSucceeded:
		return false
	case p.Outpoints != "":
		return p.Preimage.IsZero()
	}
	return p.Preimage.Hash() == p.Hash
}

// Pay says what SendPayment is to pay. AmountMsats must equal the invoice's
// own amount, so that nobody pays what he did not mean to. Timeout bounds the
// search for a route; a payment in flight may take longer. 0 means the
// backend's own default.
type Pay struct {
	BOLT11        string
	AmountMsats   int64
	FeeLimitMsats int64
	Timeout       time.Duration
}

// Balance is a wallet's money. A payment in flight has left SpendableMsats and
// is in ReservedMsats, fee included, until it ends. ReceivedMsats is the sum
// of settled invoices, 0 where a backend keeps no such sum.
type Balance struct {
	SpendableMsats int64 `json:"spendable_msats"`
	ReservedMsats  int64 `json:"reserved_msats"`
	ReceivedMsats  int64 `json:"received_msats"`
}
