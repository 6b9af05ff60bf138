// Package nwc implements both sides of Nostr Wallet Connect (NIP-47).
//
// A [Client] is a wallet backend (see package payments) on a wallet service named
// by a nostr+walletconnect:// URI. A [Service] offers a backend to other
// applications, each with its own key, methods and budget.
//
// The relays carry encrypted messages and need not be trusted: a lost, late or
// repeated message never makes a payment count as failed or be made twice. Answers
// of the wallet service are bounded and checked; facts that cannot be checked (a
// balance, the settlement of an invoice) rest on its word.
//
// Beyond NIP-47 both sides support a few fields, which others ignore: make_invoice
// accepts preimage (announced as make_invoice_preimage), pay_invoice accepts
// fee_limit (pay_invoice_fee_limit), get_balance returns reserved, a held invoice
// has settle_by, and an error has reason.
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

// Method is a method of NIP-47.
type Method string

// The supported methods.
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

// maxExpiry bounds the expiry that an app may request and a wallet may report.
const maxExpiry = 30 * 24 * time.Hour
