package payments

import (
	"errors"
	"fmt"
)

// The errors of a backend's methods, for errors.Is. An error means that the call changed
// nothing, except for [ErrWalletUnavailable] and [ErrUnknownOutcome].
var (
	// ErrNotFound: no such invoice or payment was ever made here.
	ErrNotFound = errors.New("not found")
	// ErrInvoiceMismatch: an invoice with this hash exists and says something else.
	ErrInvoiceMismatch = errors.New("the invoice differs from what was asked")
	// ErrAlreadyPaid: the hash was paid, or is being paid, by somebody else or by another invoice.
	ErrAlreadyPaid = errors.New("already paid")
	// ErrExpired: the invoice's time to pay is over.
	ErrExpired = errors.New("the invoice has expired")
	// ErrInvoiceCanceled: the invoice was cancelled and can be neither paid nor settled.
	ErrInvoiceCanceled = errors.New("the invoice was canceled")
	// ErrInvoiceSettled: the invoice is settled and cannot be cancelled.
	ErrInvoiceSettled = errors.New("the invoice is settled")
	// ErrNotHeld: nobody has paid the invoice, so there is nothing to settle.
	ErrNotHeld = errors.New("no payment is held")
	// ErrInsufficientFunds: amount and fee are more than the wallet can spend.
	ErrInsufficientFunds = errors.New("insufficient funds")
	// ErrNoRoute: no way to the payee within the fee limit.
	ErrNoRoute = errors.New("no route within the fee limit")
	// ErrSelfPayment: the invoice is the wallet's own.
	ErrSelfPayment = errors.New("the invoice is our own")
	// ErrWalletUnavailable: the wallet did not answer; try again later. A call
	// that changes something may have had its effect: repeat it, all are repeatable.
	ErrWalletUnavailable = errors.New("the wallet is unavailable")
	// ErrUnknownOutcome: the payment may or may not have been begun; only
	// TrackPayment tells, and nothing may be paid in its place until it does.
	ErrUnknownOutcome = errors.New("the outcome is not known")
	// ErrUnsupported: the backend cannot do this.
	ErrUnsupported = errors.New("not supported by this wallet")
	// ErrTaprootAssets: no backend moves Taproot Assets. It is an ErrUnsupported.
	ErrTaprootAssets = fmt.Errorf("%w: payments in Taproot Assets have no backend here; nothing is sent or accepted", ErrUnsupported)
	// ErrWrongNetwork: the invoice is for another network than the wallet's.
	ErrWrongNetwork = errors.New("wrong network")
	// ErrAmount: the amount is out of range or is not the invoice's.
	ErrAmount = errors.New("bad amount")
	// ErrBadRequest: the caller's arguments contradict each other or are malformed.
	ErrBadRequest = errors.New("bad request")
	// ErrSpendingStopped: the owner has stopped all spending. Nothing was sent.
	ErrSpendingStopped = errors.New("spending is stopped")
	// ErrUnauthorized: the wallet does not accept our credential.
	ErrUnauthorized = errors.New("not authorized")
)

// NeverSent reports whether an error of SendPayment means that the wallet sent
// nothing. Any other may have sent it.
func NeverSent(err error) bool {
	if err == nil || errors.Is(err, ErrUnknownOutcome) {
		return false
	}

	for _, e := range []error{
		ErrInsufficientFunds, ErrNoRoute, ErrExpired, ErrWrongNetwork, ErrSelfPayment, ErrBadRequest, ErrAmount,
		ErrInvoiceCanceled, ErrInvoiceMismatch, ErrAlreadyPaid, ErrUnauthorized, ErrUnsupported, ErrSpendingStopped,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
