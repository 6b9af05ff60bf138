// Package receipts holds the documents by which anyone can check a paid job: the
// [Quote], the buyer's [Acceptance], the [Receipt], the Nostr events that carry them
// ([Event]), and the [Bundle] that keeps them together.
//
// [Verify] grades a bundle claim by claim and returns a [Report]; [Batch] does the
// same for many bundles in a fraction of the time, and [Chains] looks for gaps and
// contradictions between a provider's receipts. Verification needs no clock, network
// or file system, so the same bundle and [Pins] always give the same report.
// docs/protocol/receipt.md describes the formats and numbers the steps.
//
// A provider signs a [Quote], checks the payer with [CheckAcceptance], binds the
// result with [ResultTerms.Tags], and issues the receipt with [New] and
// [ReceiptEvent].
//
// A buyer reads the offer with [ParseQuote] and [Quote.Matches], checks its invoice
// with [CheckInvoice] before it pays, signs [Quote.Accept], and reads the receipt with
// [ParseReceiptEvent]. A buyer who paid for a bad result collects a [Dispute], which
// [Dispute.Rule] judges.
package receipts

import "errors"

// Errors for errors.Is.
var (
	// ErrInvalid says that a document is malformed or contradicts itself.
	ErrInvalid = errors.New("invalid document")
	// ErrMismatch says that two well-formed documents that belong together disagree.
	// The error is a [*MismatchError] if one field of theirs differs.
	ErrMismatch = errors.New("documents disagree")
	// ErrBundle says that a bundle cannot be read: it is too large, has an unknown
	// file, or has no receipt.
	ErrBundle = errors.New("unusable bundle")
)

// MismatchError names the field in which two documents disagree. It is [ErrMismatch]
// for errors.Is.
type MismatchError struct {
	Field string // its name in the documents
	Got   string // in the document under test
	Want  string // in the document it must agree with
}

func (e *MismatchError) Error() string {
	return e.Field + " is " + quoted(e.Got) + ", want " + quoted(e.Want)
}

// Is makes errors.Is(err, ErrMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }
