package bunker

import (
	"errors"
	"fmt"
)

var (
	// ErrAway means that the signer did not answer in time, or that none of its
	// relays accepted the request. Repeating the request is harmless.
	ErrAway = errors.New("the remote signer is away")
	// ErrAnswer means that an answer is malformed.
	ErrAnswer = errors.New("the remote signer's answer is malformed")
	// ErrWrongKey means that the signer uses another key than when it was
	// connected.
	ErrWrongKey = errors.New("the remote signer answers with another key")
	// ErrOtherEvent means that the signer signed another event than the requested
	// one, or not validly.
	ErrOtherEvent = errors.New("the remote signer signed another event")
	// ErrKind is returned, without a request, for an event of a kind for which no
	// permission was requested when the signer was connected.
	ErrKind = errors.New("this kind was not requested when the remote signer was connected")
	// ErrTooLarge means that a text does not fit into a request.
	ErrTooLarge = errors.New("too large for a remote signer")
	// ErrURI means that a text is not of the form bunker://KEY?relay=URL.
	ErrURI = errors.New("not a bunker address")
	// ErrSession means that a key file does not contain a valid connection to a
	// remote signer.
	ErrSession = errors.New("not a connection to a remote signer")
	// ErrClosed is returned once Serve has ended.
	ErrClosed = errors.New("the connection to the remote signer is closed")
)

// RefusedError is a refusal by the signer.
type RefusedError struct {
	Method string
	Text   string // the signer's text, bounded and printable
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the remote signer refuses %s: %s", e.Method, e.Text)
}
