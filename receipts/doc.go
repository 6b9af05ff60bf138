// Package receipts holds the documents that make a paid job checkable by
// anyone: the quote, the buyer's acceptance, the receipt, the Nostr events
// that carry them, and the bundle that keeps them together.
//
// Verify grades what a bundle proves, claim by claim. It needs no clock, no
// network and no file system: the same bundle and pins give the same report
// for ever. docs/protocol/receipt.md describes the formats and numbers the steps that
// Verify follows.
//
// A provider uses Quote, CheckAcceptance, ResultTerms, New and ReceiptEvent. A
// buyer uses ParseQuote, Quote.Matches, CheckInvoice, AcceptanceEvent and
// ParseReceiptEvent before it pays or believes, and keeps everything in a
// Bundle.
package receipts

import "errors"

// Errors that callers may compare with errors.Is.
var (
	// ErrInvalid: a document is malformed or contradicts itself.
	ErrInvalid = errors.New("invalid document")
	// ErrMismatch: two well-formed documents that belong together disagree. The
	// error is a *MismatchError, which names the field.
	ErrMismatch = errors.New("documents disagree")
	// ErrBundle: a bundle cannot be read: too large, an unknown file, no receipt.
	ErrBundle = errors.New("unusable bundle")
)

// MismatchError names the field in which two documents disagree. It is
// ErrMismatch for errors.Is.
type MismatchError struct {
	Field string // as it is spelt in the documents
	Got   string // in the document under test
	Want  string // in the document it must agree with
}

func (e *MismatchError) Error() string {
	return e.Field + " is " + quoted(e.Got) + ", want " + quoted(e.Want)
}

// Is makes errors.Is(err, ErrMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }
