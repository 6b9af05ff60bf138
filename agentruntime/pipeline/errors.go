package pipeline

import (
	"errors"
	"fmt"
)

// Errors of Submit. A route that does not exist is always ErrRouteNotFound,
// whatever the reason: nothing tells a caller that a handler exists which it
// may not reach.
var (
	ErrRouteNotFound = errors.New("route not found")
	// ErrNoDirective: the handler acts only under a live directive.
	ErrNoDirective = errors.New("no live directive")
	// ErrChainExhausted: the handlers sent each other more messages than
	// Config.MaxHops.
	ErrChainExhausted = errors.New("message chain exhausted")
	// ErrThreadBusy: a message of the same thread is still under way.
	ErrThreadBusy = errors.New("thread is busy")
	// ErrThreadClosed: the thread has completed or failed.
	ErrThreadClosed = errors.New("thread is closed")
	// ErrWildcard: a table names every tag or every handler at once.
	ErrWildcard = errors.New("wildcards are not allowed")
	// ErrJournal: the journal did not take an entry, so the message stopped.
	ErrJournal = errors.New("journal refused the entry")
)

// ConfigError names the part of a Config that New refuses.
type ConfigError struct {
	Part string // "handler echo", "profile researcher"
	Err  error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("pipeline %s: %v", e.Part, e.Err) }
func (e *ConfigError) Unwrap() error { return e.Err }

// MalformedError names the envelope field that is missing or has a bad form.
// The message never entered the pipeline.
type MalformedError struct{ Field, Reason string }

func (e *MalformedError) Error() string {
	return fmt.Sprintf("malformed envelope: %s %s", e.Field, e.Reason)
}

// ValidationError says that a payload does not match the schema of its tag.
type ValidationError struct {
	Tag string
	Err error
}

func (e *ValidationError) Error() string { return fmt.Sprintf("validate %s: %v", e.Tag, e.Err) }
func (e *ValidationError) Unwrap() error { return e.Err }

// ResponseError says that a handler's output was refused at the checkpoint: a
// tag it did not declare, or bytes that do not match the tag's schema.
type ResponseError struct {
	Handler, Tag string
	Err          error
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("response of %s as %s: %v", e.Handler, e.Tag, e.Err)
}
func (e *ResponseError) Unwrap() error { return e.Err }

// HandlerError is a handler's own failure: an Error response, or a Go error,
// whose Code is then "handler.failed".
type HandlerError struct {
	Handler string
	Failure Failure
	Err     error // nil for an Error response
}

func (e *HandlerError) Error() string {
	return fmt.Sprintf("handler %s: %s: %s", e.Handler, e.Failure.Code, e.Failure.Message)
}
func (e *HandlerError) Unwrap() error { return e.Err }

// HandlerPanicError is a panic that a handler did not catch.
type HandlerPanicError struct {
	Handler string
	Value   any
}

func (e *HandlerPanicError) Error() string {
	return fmt.Sprintf("handler %s panicked: %v", e.Handler, e.Value)
}
