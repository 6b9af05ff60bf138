// Package nwc is Nostr Wallet Connect (NIP-47), both sides of it.
//
// A [Client] is a wallet backend (see package payments) on a wallet service
// that a nostr+walletconnect:// URI names. A [Service] offers a backend of
// ours to other applications, each with its own key, methods and budget.
//
// The relays carry sealed messages and are trusted with nothing: a lost,
// late or repeated message never turns into a payment that failed or was made
// twice. What the wallet service says is bounded and checked; what cannot be
// checked (a balance, that an invoice was settled) is its word alone.
//
// Beyond NIP-47 the two sides here know a few fields, which others ignore:
// make_invoice takes preimage (the service announces make_invoice_preimage),
// pay_invoice takes fee_limit (pay_invoice_fee_limit), get_balance returns
// reserved, a held invoice has settle_by, and an error has reason.
package nwc

import "time"

// Kinds of events.
const (
	kindInfo        = 13194
	kindRequest     = 23194
	kindResponse    = 23195
	kindNotifyNIP04 = 23196
	kindNotifyNIP44 = 23197
)

// Method is a command of NIP-47.
type Method string

// The methods that are known here.
const (
	PayInvoice        Method = "pay_invoice"
	MakeInvoice       Method = "make_invoice"
	LookupInvoice     Method = "lookup_invoice"
	ListTransactions  Method = "list_transactions"
	GetBalance        Method = "get_balance"
	GetBudget         Method = "get_budget"
	GetInfo           Method = "get_info"
	MakeHoldInvoice   Method = "make_hold_invoice"
	SettleHoldInvoice Method = "settle_hold_invoice"
	CancelHoldInvoice Method = "cancel_hold_invoice"
)

// Words of an info event that are not methods.
const (
	wordNotifications = "notifications"
	wordPreimage      = "make_invoice_preimage"
	wordFeeLimit      = "pay_invoice_fee_limit"
)

// Types of notifications.
const (
	notePaymentReceived = "payment_received"
	notePaymentSent     = "payment_sent"
	noteHoldAccepted    = "hold_invoice_accepted"
)

// maxExpiry bounds what an app may ask for, and what is believed of a wallet.
const maxExpiry = 30 * 24 * time.Hour
