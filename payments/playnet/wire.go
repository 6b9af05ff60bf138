package playnet

import (
	"errors"
	"net/http"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// The wire form: POST /v1/<Method> with a JSON object, answered by one. The
// wallet's token is in Authorization: Bearer. An error is answered by
// {"code": ..., "message": ...} and a status that is not 200.

// Bounds of what is read, in bytes, and of how long an answer may be waited for.
const (
	maxRequest  = 16 << 10
	maxResponse = 64 << 10
	longPoll    = 20 * time.Second
)

// The methods.
const (
	MethodOpenWallet    = "OpenWallet"
	MethodNode          = "Node"
	MethodBalance       = "Balance"
	MethodCreateInvoice = "CreateInvoice"
	MethodLookupInvoice = "LookupInvoice"
	MethodSettleInvoice = "SettleInvoice"
	MethodCancelInvoice = "CancelInvoice"
	MethodWatchInvoices = "WatchInvoices"
	MethodSendPayment   = "SendPayment"
	MethodLookupPayment = "LookupPayment"
	MethodTrackPayment  = "TrackPayment"
)

const (
	methodPath         = "/v1/"
	contentType        = "application/json"
	bearer             = "Bearer "
	codeUnavailable    = "unavailable"
	codeUnknownOutcome = "unknown_outcome"
)

type openRequest struct {
	Name  string `json:"name"`
	Token string `json:"token"`
}

type empty struct{}

type createRequest struct {
	Preimage        payments.Preimage `json:"preimage"`
	PaymentHash     payments.Hash     `json:"payment_hash"`
	Hold            bool              `json:"hold"`
	AmountMsats     int64             `json:"amount_msats"`
	DescriptionHash hashing.Digest    `json:"description_hash"`
	ExpirySeconds   int64             `json:"expiry_s"`
}

type hashRequest struct {
	PaymentHash payments.Hash `json:"payment_hash"`
}

type settleRequest struct {
	Preimage payments.Preimage `json:"preimage"`
}

type payRequest struct {
	BOLT11        string `json:"bolt11"`
	AmountMsats   int64  `json:"amount_msats"`
	FeeLimitMsats int64  `json:"fee_limit_msats"`
}

type watchRequest struct {
	After int64 `json:"after"`
}

// watchResponse lists hashes that changed; Next is where to go on.
type watchResponse struct {
	Next   int64           `json:"next"`
	Hashes []payments.Hash `json:"hashes"`
}

// trackResponse has no payment when the wait was over before it ended.
type trackResponse struct {
	Payment *payments.Payment `json:"payment"`
}

type errorResponse struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// codes pairs each error with its name on the wire, both ways.
var codes = [...]struct {
	err    error
	code   string
	status int
}{
	// First, because it may wrap another.
	{payments.ErrUnknownOutcome, codeUnknownOutcome, http.StatusInternalServerError},
	{payments.ErrNotFound, "not_found", http.StatusNotFound},
	{payments.ErrInvoiceMismatch, "invoice_mismatch", http.StatusConflict},
	{payments.ErrAlreadyPaid, "already_paid", http.StatusConflict},
	{payments.ErrExpired, "expired", http.StatusConflict},
	{payments.ErrInvoiceCanceled, "invoice_canceled", http.StatusConflict},
	{payments.ErrInvoiceSettled, "invoice_settled", http.StatusConflict},
	{payments.ErrNotHeld, "not_held", http.StatusConflict},
	{payments.ErrInsufficientFunds, "insufficient_funds", http.StatusConflict},
	{payments.ErrNoRoute, "no_route", http.StatusConflict},
	{payments.ErrSelfPayment, "self_payment", http.StatusConflict},
	{payments.ErrWrongNetwork, "wrong_network", http.StatusBadRequest},
	{payments.ErrAmount, "amount", http.StatusBadRequest},
	{payments.ErrBadRequest, "bad_request", http.StatusBadRequest},
	{payments.ErrUnauthorized, "unauthorized", http.StatusUnauthorized},
	{ErrWalletExists, "wallet_exists", http.StatusConflict},
	{payments.ErrWalletUnavailable, codeUnavailable, http.StatusServiceUnavailable},
}

// codeOf names an error; what has no name is the ledger's own trouble, told as
// "unavailable" and in no detail.
func codeOf(err error) (errorResponse, int) {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return errorResponse{Code: c.code, Message: err.Error()}, c.status
		}
	}
	return errorResponse{Code: codeUnavailable, Message: "the ledger cannot answer"}, http.StatusServiceUnavailable
}

// remoteError is an error that the server told: its text, and what it is.
type remoteError struct {
	message string
	kind    error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.kind }

// errorOf is the inverse of codeOf. A code that is not known is trouble too.
func errorOf(r errorResponse) error {
	for _, c := range codes {
		if c.code == r.Code {
			return &remoteError{message: r.Message, kind: c.err}
		}
	}
	return &remoteError{message: r.Message, kind: payments.ErrWalletUnavailable}
}
