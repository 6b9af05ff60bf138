// Package payments holds the types that wallet backends and their users share: [Hash]
// and [Preimage], [NewInvoice] and [Invoice], [Pay] and [Payment], [Balance], [Network],
// and the errors of a backend's methods.
//
// The backends are the packages payments/lnd, nwc, cashu, onchain and playnet. Each is a
// [Wallet]. The tests of package payments/conformance define what its methods promise.
//
// Amounts are whole millisatoshi (msats) from 0 to [MaxMsats]. Times are UTC. The
// package contains no network code, so that the offline verifier can use it.
package payments

import (
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// MaxMsats bounds every amount: 2^53-1, the largest integer that every JSON reader
// keeps exact.
const MaxMsats = 1<<53 - 1

// CheckMsats refuses an amount outside 0..MaxMsats.
func CheckMsats(msats int64) error {
	if msats < 0 || msats > MaxMsats {
		return fmt.Errorf("%w: %d msats", ErrAmount, msats)
	}
	return nil
}

// Node is the Lightning node behind a wallet. PubKey is its 33-byte compressed
// secp256k1 key in lower-case hex, the payee of its invoices.
type Node struct {
	PubKey  string  `json:"pub_key"`
	Network Network `json:"network"`
	Alias   string  `json:"alias"`
	// Account distinguishes the wallets on one node; "" if the node is one wallet.
	Account string `json:"account,omitempty"`
}

// Wallet is a lasting name of the wallet. A payment can be looked up only in the wallet
// that began it.
func (n Node) Wallet() string {
	return strings.TrimSpace(strings.Join([]string{string(n.Network), n.PubKey, n.Account}, " "))
}

// NewInvoice is a request to CreateInvoice.
//
// Without Hold, the wallet settles the invoice as soon as it is paid. It then needs the
// Preimage; PaymentHash must be zero or equal to Preimage.Hash(). With Hold, only
// PaymentHash is needed: the caller keeps the preimage and passes it to SettleInvoice.
type NewInvoice struct {
	Preimage        Preimage
	PaymentHash     Hash
	Hold            bool
	AmountMsats     int64          // 1..MaxMsats
	DescriptionHash hashing.Digest // goes into the invoice's h field
	Expiry          time.Duration  // whole seconds, at least one
}

// Hash returns the payment hash of the new invoice. It checks the request: hash and
// preimage must belong together, and amount and expiry must be in range. The errors are
// [ErrBadRequest] and [ErrAmount].
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

// InvoiceState is the state of an invoice.
type InvoiceState string

// The states of an invoice. Open may become any other; Held becomes Settled or
// Canceled; those two are final. An invoice that expired unpaid is Canceled.
const (
	InvoiceOpen     InvoiceState = "open"
	InvoiceHeld     InvoiceState = "held"
	InvoiceSettled  InvoiceState = "settled"
	InvoiceCanceled InvoiceState = "canceled"
)

// Only on the chain, an open invoice may be paid in part, or in full but not yet
// confirmed. A reorganisation can undo every state except the two final ones. A canceled
// invoice may have PaidMsats there: confirmed money that came in part or too late.
const (
	InvoicePartial InvoiceState = "partial"
	InvoicePending InvoiceState = "pending"
)

// Terminal reports whether the state is final.
func (s InvoiceState) Terminal() bool { return s == InvoiceSettled || s == InvoiceCanceled }

// Invoice is one of the wallet's own invoices in its present state.
type Invoice struct {
	BOLT11      string       `json:"bolt11"`
	PaymentHash Hash         `json:"payment_hash"`
	AmountMsats int64        `json:"amount_msats"`
	State       InvoiceState `json:"state"`
	// PaidMsats is the money that has arrived, held or settled.
	PaidMsats int64 `json:"paid_msats"`
	// SettleBy is set while the invoice is held. After this time the wallet may return
	// the money, so settle or cancel before.
	SettleBy time.Time `json:"settle_by,omitzero"`
	// Preimage is set once settled, if the wallet chose it and reveals it.
	Preimage Preimage `json:"-"`
	// SettledAt is set once settled.
	SettledAt time.Time `json:"settled_at,omitzero"`
	// Final is set once the money of a settled invoice cannot be lost any more. On lnd
	// the HTLC must be resolved; having released the preimage is not enough.
	Final bool `json:"final"`
	// LostMsats is money that the wallet reported as settled and that returned to the
	// payer all the same (lnd#7463). PaidMsats does not include it. An invoice that lost
	// everything is Canceled.
	LostMsats int64 `json:"lost_msats,omitempty"`
	// Outpoints are the outputs on the chain that paid, as "txid:index,...", sorted as
	// text, at most [MaxOutpoints]; empty on other rails.
	Outpoints string `json:"outpoints,omitempty"`
}

// PaymentState is the state of an outgoing payment.
type PaymentState string

// The states of a payment. PaymentUnknown means that the backend cannot tell the
// outcome: the payment must count neither as paid nor as failed, and its money stays
// reserved.
const (
	PaymentUnknown   PaymentState = "unknown"
	PaymentInFlight  PaymentState = "in_flight"
	PaymentSucceeded PaymentState = "succeeded"
	PaymentFailed    PaymentState = "failed"
)

// Terminal reports whether the state is final for this attempt.
func (s PaymentState) Terminal() bool { return s == PaymentSucceeded || s == PaymentFailed }

// Payment is an outgoing payment of the wallet. Preimage is set once it succeeded,
// FailureReason (plain text for people) once it failed. FeeMsats is the fee paid, or
// reserved while in flight; a failed payment can have cost a fee too, but only at a
// mint. Warning is a text for people, if the backend sees that a payment in flight may
// never end; it does not change the state.
type Payment struct {
	Hash          Hash         `json:"hash"`
	State         PaymentState `json:"state"`
	AmountMsats   int64        `json:"amount_msats"`
	FeeMsats      int64        `json:"fee_msats"`
	Preimage      Preimage     `json:"preimage,omitzero"`
	FailureReason string       `json:"failure_reason,omitempty"`
	Warning       string       `json:"warning,omitempty"`
	// Outpoints is the output that pays, for a payment on the chain, which has no
	// Preimage.
	Outpoints string `json:"outpoints,omitempty"`
}

// Shown reports whether a payment succeeded and has the proof: the preimage or, on the
// chain, the output.
func (p Payment) Shown() bool {
	switch {
	case p.State != PaymentSucceeded:
		return false
	case p.Outpoints != "":
		return p.Preimage.IsZero()
	}
	return p.Preimage.Hash() == p.Hash
}

// Pay is a request to SendPayment. AmountMsats must equal the invoice's amount, so that
// a caller cannot pay an amount that it did not expect. Timeout bounds the search for a
// route, but not a payment in flight; 0 means the backend's default.
type Pay struct {
	BOLT11        string
	AmountMsats   int64
	FeeLimitMsats int64
	Timeout       time.Duration
	// ToldAt is when a wallet was first told to make this very payment; zero if none was.
	// A wallet looks whether it did, where its own record of it may be lost.
	ToldAt time.Time
}

// Balance is the money of a wallet. A payment in flight counts, with its fee, in
// ReservedMsats instead of SpendableMsats until it ends. ReceivedMsats is the sum of
// settled invoices, 0 if the backend does not keep it.
type Balance struct {
	SpendableMsats int64 `json:"spendable_msats"`
	ReservedMsats  int64 `json:"reserved_msats"`
	ReceivedMsats  int64 `json:"received_msats"`
}
