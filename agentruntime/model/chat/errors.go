package chat

import (
	"errors"
	"fmt"
	"time"
)

// Reasons for errors of an endpoint. Every such error is an [*Error] that wraps one
// of them.
var (
	// ErrUnauthorized: the endpoint rejects the key.
	ErrUnauthorized = errors.New("the endpoint does not accept the key")
	// ErrRateLimited: too many requests. Error.RetryAfter may say how long to wait.
	ErrRateLimited = errors.New("the endpoint limits the rate")
	// ErrUnavailable: no connection, a server error, or a truncated answer.
	ErrUnavailable = errors.New("the endpoint is unavailable")
	// ErrRefused: the endpoint rejects the request, for example because of an
	// unknown model or too long a conversation.
	ErrRefused = errors.New("the endpoint refused the request")
	// ErrBadResponse: the answer does not conform to the API.
	ErrBadResponse = errors.New("the endpoint's answer is malformed")
	// ErrTooLarge: the answer is longer than the bound.
	ErrTooLarge = errors.New("the endpoint's answer is too large")
	// ErrTimeout: the endpoint took too long to start, continue or end its answer.
	ErrTimeout = errors.New("the endpoint is too slow")
)

// Error describes a failure of an endpoint. It never contains the key.
type Error struct {
	Reason error // one of the Err variables of this package
	Status int   // of HTTP, 0 if there was none
	// RetryAfter is the wait that the endpoint asks for, 0 if none.
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

// Code returns the failure code of the reason, such as "model.rate_limited".
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
