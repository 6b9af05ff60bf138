package cashu

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
)

// Faults of a mint or a payer, for errors.Is. Errors common to all backends are in
// package payments.
var (
	// ErrMint: the mint's answer violates the protocol and is ignored.
	ErrMint = errors.New("cashu: the mint's answer is not usable")
	// ErrKeyset: the mint does not have the keys of a note, or its keys do not
	// match their id.
	ErrKeyset = errors.New("cashu: unknown or wrong keys")
	// ErrNote: the mint did not sign the note, or signed it for another amount.
	ErrNote = errors.New("cashu: not a note of the mint")
	// ErrLock: the notes are not locked as the invoice says.
	ErrLock = errors.New("cashu: the notes are not locked as the invoice says")
	// ErrSpent: the notes were spent before.
	ErrSpent = errors.New("cashu: the notes are spent")
	// ErrCap: the operation would exceed Config.MaxMsats at the mint.
	ErrCap = errors.New("cashu: over the limit for money at the mint")
	// ErrMessage: the message is not a payment.
	ErrMessage = errors.New("cashu: not a payment message")
	// ErrRestoreLimit: the mint has signed more of our numbers than one Restore
	// asks for. The next Restore continues from there.
	ErrRestoreLimit = errors.New("cashu: the mint has more notes of this seed than one restore asks for")
)

// MintError is a refusal by the mint (NUT-00). Detail is the mint's text, shortened
// and made printable. errors.Is matches it with payments.ErrBadRequest.
type MintError struct {
	Path   string
	Status int
	Code   int
	Detail string
}

func (e *MintError) Error() string {
	return fmt.Sprintf("cashu: the mint refused %s: %q (status %d, code %d)", e.Path, e.Detail, e.Status, e.Code)
}

// Is matches every refusal with payments.ErrBadRequest.
func (e *MintError) Is(target error) bool { return target == payments.ErrBadRequest }

// printable shortens untrusted text and makes it safe for a terminal.
func printable(s string) string { return clip.Line(s, 200) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
