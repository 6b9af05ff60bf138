package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

var (
	// ErrStopped means that the supervisor has been stopped.
	ErrStopped = errors.New("supervisor: stopped")
	// ErrExists means that an agent of this id was started before.
	ErrExists = errors.New("supervisor: agent exists")
	// ErrNoAgent means that no agent of this id was started.
	ErrNoAgent = errors.New("supervisor: no such agent")

	errHeartbeat    = errors.New("heartbeats stopped")
	errRunaway      = errors.New("a call did not end after its deadline")
	errViolation    = errors.New("protocol violation")
	errDisconnected = errors.New("the agent closed the connection")
	errStopping     = errors.New("the supervisor ended the session")
)

// Error is the failure of a call. Its codes are those of package wire, but an agent may
// use its own.
type Error struct {
	Code      string
	Message   string // safe to show; it may come from the agent
	Retryable bool
	FromAgent bool            // the agent said so, and not the supervisor
	Details   json.RawMessage // object from the agent, or nil
	cause     error
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the error of the caller's context if that ended the call.
func (e *Error) Unwrap() error { return e.cause }

func failf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: wire.SafeText(fmt.Sprintf(format, args...))}
}

// unavailable is the error of a call that did not reach the agent and may be repeated.
func unavailable(format string, args ...any) *Error {
	e := failf(wire.CodeUnavailable, format, args...)
	e.Retryable = true
	return e
}

// fromAgent takes over an agent's error, without its debug part (OS-3.3.7).
func fromAgent(e *wire.Error) *Error {
	return &Error{
		Code: e.Code, Message: wire.SafeText(e.Message), Retryable: e.Retryable,
		Details: e.Details, FromAgent: true,
	}
}
