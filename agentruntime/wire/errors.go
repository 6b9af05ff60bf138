package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/lightwork-market/lightwork/internal/clip"
)

// Codes of the one error table, as far as this protocol uses them.
const (
	CodeUnauthorized       = "protocol.unauthorized"
	CodeInvalidMessage     = "protocol.invalid_message"
	CodeUnknownType        = "protocol.unknown_type"
	CodeWrongDirection     = "protocol.wrong_direction"
	CodeUnsupportedVersion = "protocol.unsupported_version"
	CodeManifestDrift      = "protocol.manifest_drift"
	CodeInvalidTool        = "protocol.invalid_tool"
	CodeDuplicateCall      = "protocol.duplicate_call"
	CodeRouteNotFound      = "route.not_found"
	CodeInvalidInput       = "tool.invalid_input"
	CodeInvalidOutput      = "tool.invalid_output"
	CodeOutputTooLarge     = "tool.output_too_large"
	CodeFailed             = "tool.failed"
	CodeInternal           = "tool.internal"
	CodeTimeout            = "tool.timeout"
	CodeCanceled           = "tool.canceled"
	CodeUnavailable        = "tool.unavailable"
	CodeOverloaded         = "tool.overloaded"
	CodePolicyViolation    = "policy.violation"
)

// Error is the standard error object (OS-3.3). Message and Details must hold
// no secret and no stack trace.
type Error struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitzero"` // object
	Retryable bool            `json:"retryable,omitzero"`
	Where     string          `json:"where,omitzero"` // component, e.g. "core.router"
	Debug     json.RawMessage `json:"debug,omitzero"` // object; never set by this module
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Code + ": " + e.Message
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$`)

func (e *Error) check(at string) *fieldError {
	switch {
	case len(e.Code) > maxTypeBytes || !codeForm.MatchString(e.Code):
		return &fieldError{at + ".code", "must be a dotted lower-case code"}
	case len(e.Message) > maxMessageBytes:
		return &fieldError{at + ".message", fmt.Sprintf("longer than %d bytes", maxMessageBytes)}
	case len(e.Where) > maxTypeBytes:
		return &fieldError{at + ".where", "too long"}
	}
	return first(optionalObject(at+".details", e.Details), optionalObject(at+".debug", e.Debug))
}

// SafeText makes text fit for an error message: valid UTF-8, no control
// characters, at most the length that a receiver accepts.
func SafeText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return clip.Text(text, maxMessageBytes)
}

// DecodeError says why a message was refused. Type, ID, RequestID and CallID
// are what could be read of it, so that the refusal can be answered; they come
// from the peer.
type DecodeError struct {
	Code   string // a protocol.* code
	Field  string // path of the offending field, if there is one
	Reason string // safe: holds no content of the message

	Type      Type
	ID        string
	RequestID string
	CallID    string
}

func (e *DecodeError) Error() string {
	if e.Field == "" {
		return e.Code + ": " + e.Reason
	}
	return e.Code + ": " + e.Field + ": " + e.Reason
}

// Reply is the error object that tells the peer about the refusal.
func (e *DecodeError) Reply(where string) *Error {
	msg := e.Reason
	if e.Field != "" {
		msg = e.Field + ": " + e.Reason
	}
	return &Error{Code: e.Code, Message: msg, Where: where}
}

// ExpectsReply reports whether the sender waits for an answer: only a message
// of a logical request does (OS-6.2.2, OS-6.2.3).
func (e *DecodeError) ExpectsReply() bool { return e.RequestID != "" && e.ID != "" }

type fieldError struct{ field, reason string }
