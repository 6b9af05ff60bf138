// Package advice provides errors with a hint for the user's next step and with the
// exit code of the program.
package advice

import (
	"errors"
	"fmt"
)

// Exit codes, documented in docs/use/cli.md.
const (
	ExitOK     = 0
	ExitFailed = 1 // the operation failed
	ExitUsage  = 2 // the command line, the configuration or an input is invalid
	ExitOpen   = 3 // not finished: run it again later; or a proof is missing
	ExitUnmet  = 4 // a job was bought and delivered, but its commands failed
)

// Error adds an exit code and a hint to an error.
type Error struct {
	Code int
	Hint string
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its hint.
func (e *Error) Unwrap() error { return e.Err }

// Usage returns an error about the user's input.
func Usage(hint string, format string, args ...any) error {
	return &Error{ExitUsage, hint, fmt.Errorf(format, args...)}
}

// Hint adds a hint for the next step to an error.
func Hint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{ExitFailed, hint, err}
}

// Unfinished returns an error for an operation that continues; the hint says how to
// check on it.
func Unfinished(err error, hint string) error {
	return &Error{ExitOpen, hint, err}
}

// OtherUser is the hint if a file cannot be read or created.
const OtherUser = "this user has no permission there: run it as the user who owns the node, or name another folder"

// Exit returns an error without text, for commands that have printed everything.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &Error{Code: code, Err: ErrSilent}
}

// ErrSilent is wrapped by the errors of Exit.
var ErrSilent = errors.New("")
