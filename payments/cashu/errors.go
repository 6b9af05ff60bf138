package cashu

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/payments"
)

// What a mint or a payer does wrong, for errors.Is. The errors that every
// backend returns are in package payments.
var (
	// ErrMint: the mint's answer breaks the protocol. Nothing is taken from it.
	ErrMint = errors.New("cashu: the mint's answer is not usable")
	// ErrKeyset: the notes are of keys that the mint has not, or the mint's keys
	// are not those that their id names.
	ErrKeyset = errors.New("cashu: unknown or wrong keys")
	// ErrNote: a note that the mint did not sign, or signed for another amount.
	ErrNote = errors.New("cashu: not a note of the mint")
	// ErrLock: notes that are locked otherwise than the invoice says.
	ErrLock = errors.New("cashu: the notes are not locked as the invoice says")
	// ErrSpent: the notes were spent before.
	ErrSpent = errors.New("cashu: the notes are spent")
	// ErrCap: more than Config.MaxMsats would be at the mint.
	ErrCap = errors.New("cashu: over the limit for money at the mint")
	// ErrMessage: a message that is no payment.
	ErrMessage = errors.New("cashu: not a payment message")
	// ErrRestoreLimit: the mint says that it has signed more of our numbers than
	// one Restore asks for. The next one goes on behind them.
	ErrRestoreLimit = errors.New("cashu: the mint has more notes of this seed than one restore asks for")
)

// MintError is the mint's refusal (NUT-00). Detail is the mint's text, cut
// to what a terminal may show. It is payments.ErrBadRequest for errors.Is.
type MintError struct {
	Path   string
	Status int
	Code   int
	Detail string
}

func (e *MintError) Error() string {
	return fmt.Sprintf("cashu: the mint refused %s: %q (status %d, code %d)", e.Path, e.Detail, e.Status, e.Code)
}

// Is makes every refusal a bad request.
func (e *MintError) Is(target error) bool { return target == payments.ErrBadRequest }
