package chat

import (
	"errors"
	"fmt"
	"time"
)

// Ways in which a question to an endpoint can go wrong. Every error of an
// endpoint is an *Error that wraps one of them.
var (
	// ErrUnauthorized: the endpoint does not take the key.
	ErrUnauthorized = errors.New("the endpoint does not accept the key")
	// ErrRateLimited: too many questions. Error.RetryAfter may say until when.
	ErrRateLimited = errors.New("the endpoint limits the rate")
	// ErrUnavailable: no connection, a server error, an answer that was cut.
	ErrUnavailable = errors.New("the endpoint is unavailable")
	// ErrRefused: the endpoint takes no such request, as with an unknown model
	// or a conversation that is too long for it.
	ErrRefused = errors.New("the endpoint refused the request")
	// ErrBadResponse: what came back is not what the API says.
	ErrBadResponse = errors.New("the endpoint's answer is malformed")
	// ErrTooLarge: what came back is longer than the bound.
	ErrTooLarge = errors.New("the endpoint's answer is too large")
	// ErrTimeout: the endpoint took too long to begin, to go on or to end.
	ErrTimeout = errors.New("the endpoint is too slow")
)

// Error says what went wrong with an endpoint. It never holds the key.
type Error struct {
	Reason error // one of this package's
	Status int   // of HTTP, 0 if there was none
	// RetryAfter is what the endpoint asks to wait; 0: it did not say.
	RetryAfter time.Duration
	Attempts   int
	// Detail is for the operator: at most a few hundred bytes, on one line.
	Detail string
}

func (e *Error) Error() string {
	s := e.Reason.Error()
	if e.Status != 0 {
		s = fmt.Sprintf("%s (HTTP %d)", s, e.Status)
	}
	if e.Attempts > 1 {
		s = fmt.Sprintf("%s after %d attempts", s, e.Attempts)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Reason }

// Code is the reason as a failure code, "model.rate_limited".
func (e *Error) Code() string {
	switch e.Reason {
	case ErrUnauthorized:
		return "model.unauthorized"
	case ErrRateLimited:
		return "model.rate_limited"
	case ErrRefused:
		return "model.refused"
	case ErrBadResponse:
		return "model.bad_response"
	case ErrTooLarge:
		return "model.too_large"
	case ErrTimeout:
		return "model.timeout"
	}

	return "model.unavailable"
}

// Retryable reports whether the same question may be answered later.
func (e *Error) Retryable() bool {
	return e.Reason == ErrRateLimited || e.Reason == ErrUnavailable || e.Reason == ErrTimeout
}
