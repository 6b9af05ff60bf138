package nwc

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
)

// Code is an error code of NIP-47.
type Code string

// The codes. Other codes of a wallet count as CodeOther.
const (
	CodeRateLimited           Code = "RATE_LIMITED"
	CodeNotImplemented        Code = "NOT_IMPLEMENTED"
	CodeInsufficientBalance   Code = "INSUFFICIENT_BALANCE"
	CodeQuotaExceeded         Code = "QUOTA_EXCEEDED"
	CodeRestricted            Code = "RESTRICTED"
	CodeUnauthorized          Code = "UNAUTHORIZED"
	CodeInternal              Code = "INTERNAL"
	CodeUnsupportedEncryption Code = "UNSUPPORTED_ENCRYPTION"
	CodePaymentFailed         Code = "PAYMENT_FAILED"
	CodeNotFound              Code = "NOT_FOUND"
	CodeOther                 Code = "OTHER"
)

// Error is a refusal by a wallet service. It wraps the corresponding error of
// package payments; CodeInternal and CodeOther do not say what happened and count
// as payments.ErrWalletUnavailable.
type Error struct {
	Method  Method
	Code    Code
	Message string // the wallet's text, shortened and printable
	kind    error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: the wallet answers %s", e.Method, e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap returns the error of package payments; nil in an Error made by our own
// service.
func (e *Error) Unwrap() error { return e.kind }

// codeKinds maps each code to the error that it means without a reason.
var codeKinds = map[Code]error{
	CodeRateLimited:           payments.ErrWalletUnavailable,
	CodeNotImplemented:        payments.ErrUnsupported,
	CodeInsufficientBalance:   payments.ErrInsufficientFunds,
	CodeQuotaExceeded:         payments.ErrInsufficientFunds,
	CodeRestricted:            payments.ErrUnauthorized,
	CodeUnauthorized:          payments.ErrUnauthorized,
	CodeUnsupportedEncryption: payments.ErrUnsupported,
	CodePaymentFailed:         payments.ErrNoRoute,
	CodeNotFound:              payments.ErrNotFound,
}

// reasons are more precise than codes: our service adds them, and our client reads
// them.
var reasons = []struct {
	kind   error
	code   Code
	reason string
}{
	// An error may wrap several: those that leave the outcome open come first.
	{payments.ErrUnknownOutcome, CodeInternal, "unknown_outcome"},
	{payments.ErrWalletUnavailable, CodeInternal, "wallet_unavailable"},
	{payments.ErrSpendingStopped, CodeRestricted, "spending_stopped"},
	{payments.ErrNotFound, CodeNotFound, "not_found"},
	{payments.ErrInvoiceMismatch, CodeOther, "invoice_mismatch"},
	{payments.ErrAlreadyPaid, CodePaymentFailed, "already_paid"},
	{payments.ErrExpired, CodePaymentFailed, "expired"},
	{payments.ErrInvoiceCanceled, CodePaymentFailed, "invoice_canceled"},
	{payments.ErrInvoiceSettled, CodeOther, "invoice_settled"},
	{payments.ErrNotHeld, CodeOther, "not_held"},
	{payments.ErrInsufficientFunds, CodeInsufficientBalance, "insufficient_funds"},
	{payments.ErrNoRoute, CodePaymentFailed, "no_route"},
	{payments.ErrSelfPayment, CodePaymentFailed, "self_payment"},
	{payments.ErrUnsupported, CodeNotImplemented, "unsupported"},
	{payments.ErrWrongNetwork, CodeOther, "wrong_network"},
	{payments.ErrAmount, CodeOther, "amount"},
	{payments.ErrBadRequest, CodeOther, "bad_request"},
	// Our own credential is refused, which is not the app's fault.
	{payments.ErrUnauthorized, CodeInternal, "wallet_unavailable"},
}

// asError converts a refusal.
func asError(m Method, w *wireError) *Error {
	e := &Error{Method: m, Code: Code(clip.Line(w.Code, 40)), Message: clip.Line(w.Message, 200)}
	if e.Code == "" {
		e.Code = CodeOther // an error without a code still is an error
	}
	if e.kind = codeKinds[e.Code]; e.kind == nil {
		e.kind = payments.ErrWalletUnavailable // the outcome is unknown
	}

	for _, r := range reasons {
		if r.reason == w.Reason {
			e.kind = r.kind
			break
		}
	}

	return e
}

// refusal converts an error for an app. It sends only texts of its own, because
// those of a backend may reveal more about the node than the app should know.
func refusal(err error) *wireError {
	var e *Error
	if errors.As(err, &e) && e.kind == nil {
		return &wireError{Code: string(e.Code), Message: e.Message}
	}
	for _, r := range reasons {
		if errors.Is(err, r.kind) {
			return &wireError{Code: string(r.code), Message: r.kind.Error(), Reason: r.reason}
		}
	}
	return &wireError{Code: string(CodeInternal), Message: "internal error"}
}
