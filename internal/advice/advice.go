// Package advice is about errors that come with the next step of whoever reads them,
// and with the exit code of the program that ends by them.
package advice

import (
	"errors"
	"fmt"
)

// Exit codes, documented in docs/use/cli.md.
const (
	ExitOK     = 0
	ExitFailed = 1 // it was tried and did not work
	ExitUsage  = 2 // the command line, the configuration or an input is not usable
	ExitOpen   = 3 // not finished: run it again later, or a proof is missing
	ExitUnmet  = 4 // a job was bought and delivered, and its commands did not succeed
)

// Error carries the exit code that an error stands for, and a hint.
type Error struct {
	Code int
	Hint string
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the error without its hint.
func (e *Error) Unwrap() error { return e.Err }

// Usage is an error of what the user gave us.
func Usage(hint string, format string, args ...any) error {
	return &Error{ExitUsage, hint, fmt.Errorf(format, args...)}
}

// Hint adds a next step to an error.
func Hint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{ExitFailed, hint, err}
}

// Unfinished is an error after which something goes on; the next step is to look at
// it again.
func Unfinished(err error, hint string) error {
	return &Error{ExitOpen, hint, err}
}

// OtherUser is the hint where a file may not be read or made.
const OtherUser = "this user has no permission there: run it as the user who owns the node, or name another folder"

// Exit is an error without words: the command has said it all.
func Exit(code int) error {
	if code == ExitOK {
		return nil
	}
	return &Error{Code: code, Err: ErrSilent}
}

// ErrSilent is inside an error that Exit made.
var ErrSilent = errors.New("")
