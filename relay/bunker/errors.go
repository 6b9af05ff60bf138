package bunker

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

var (
	// ErrAway says that the signer did not answer in time, or that no relay of
	// its took the question. Asking again is harmless.
	ErrAway = errors.New("the remote signer is away")
	// ErrAnswer is returned for an answer that makes no sense.
	ErrAnswer = errors.New("the remote signer's answer is malformed")
	// ErrWrongKey says that it signs with another key than it did when it was
	// connected.
	ErrWrongKey = errors.New("the remote signer answers with another key")
	// ErrOtherEvent says that it signed another event than it was asked to, or
	// not validly.
	ErrOtherEvent = errors.New("the remote signer signed another event")
	// ErrKind is returned, without asking, for an event of a kind for which no
	// permission was requested when the signer was connected.
	ErrKind = errors.New("this kind was not requested when the remote signer was connected")
	// ErrTooLarge is returned for what does not fit into a question.
	ErrTooLarge = errors.New("too large for a remote signer")
	// ErrURI is returned for an address that is not bunker://KEY?relay=URL.
	ErrURI = errors.New("not a bunker address")
	// ErrSession is returned for a key file that should be a connection to a
	// remote signer and is not.
	ErrSession = errors.New("not a connection to a remote signer")
	// ErrClosed is returned once Serve has ended.
	ErrClosed = errors.New("the connection to the remote signer is closed")
)

// RefusedError is the signer's own no.
type RefusedError struct {
	Method string
	Text   string // the signer's, bounded and printable
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the remote signer refuses %s: %s", e.Method, e.Text)
}

// printable bounds a stranger's words and keeps them from steering a terminal.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), most)], " "))
	return strings.TrimSpace(s)
}
