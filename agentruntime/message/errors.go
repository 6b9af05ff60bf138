package message

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Code is an error code of a message (YE-E).
type Code string

// The seven codes.
const (
	DataUnavailable     Code = "DATA_UNAVAILABLE"
	SourceError         Code = "SOURCE_ERROR"
	ValidationFailed    Code = "VALIDATION_FAILED"
	Timeout             Code = "TIMEOUT"
	FabricationDetected Code = "FABRICATION_DETECTED"
	SafetyViolation     Code = "SAFETY_VIOLATION"
	Unauthorized        Code = "UNAUTHORIZED"
)

// codes returns all seven.
func codes() []Code {
	return []Code{DataUnavailable, SourceError, ValidationFailed, Timeout, FabricationDetected, SafetyViolation, Unauthorized}
}

// Recoverable is the recoverable member of every error message of this code
// (YE-E.8).
func (c Code) Recoverable() bool { return c == DataUnavailable || c == SourceError || c == Timeout }

// Codes of the runtime protocol that no agent connection makes itself.
const (
	osDependencyMissing = "tool.dependency_missing"
	OSDataUnavailable   = "tool.data_unavailable"
	osFabrication       = "evidence.fabrication"
	osHandlerFailed     = "handler.failed"
	osMessageInvalid    = "message.invalid"
	osDirectiveMissing  = "directive.missing"
)

// Kind is a row of the error table (M-5): the cause of an error.
type Kind string

// The rows.
const (
	KindInvalid      Kind = "invalid"      // bad message or schema
	KindUnauthorized Kind = "unauthorized" // not allowed, or no route in the profile
	KindDeadline     Kind = "deadline"
	KindCanceled     Kind = "canceled"
	KindUnavailable  Kind = "unavailable" // the agent is down or not registered
	KindDependency   Kind = "dependency"  // a dependency of the agent is missing
	KindNoData       Kind = "no data"
	KindFabrication  Kind = "fabrication" // evidence is broken
	KindPolicy       Kind = "policy"      // a policy is violated, or a secret was found
	KindOverload     Kind = "overload"
	KindFailed       Kind = "failed" // the agent ran and failed
)

// Market is the form in which the market reports an error.
type Market string

// The two forms: feedback with the status error, or a result that contains a gap.
const (
	MarketError Market = "error"
	MarketGap   Market = "result with gap"
)

// Row is one kind of error in the codes of every protocol.
type Row struct {
	Kind Kind
	// OS are the codes of the runtime protocol: the first is written, all are
	// accepted.
	OS []string
	// Code is the message's code.
	Code Code
	// Class and Status are the gateway protocol's failureClass and code; "" if it
	// has none.
	Class, Status string
	Market        Market
	Retryable     bool
}

// table returns the error table, the only place that relates the code families to
// each other (K-46).
func table() []Row {
	return []Row{
		{KindInvalid, []string{
			wire.CodeInvalidInput, wire.CodeInvalidMessage, wire.CodeInvalidOutput, wire.CodeOutputTooLarge, wire.CodeUnknownType,
			wire.CodeWrongDirection, wire.CodeUnsupportedVersion, wire.CodeInvalidTool, wire.CodeManifestDrift, wire.CodeDuplicateCall, osMessageInvalid,
		}, ValidationFailed, "execution_error", "400", MarketError, false},
		{KindUnauthorized, []string{wire.CodeUnauthorized, wire.CodeRouteNotFound, osDirectiveMissing}, Unauthorized, "authz_denied", "400 no_route", MarketError, false},
		{KindDeadline, []string{wire.CodeTimeout}, Timeout, "timeout", "", MarketError, true},
		{KindCanceled, []string{wire.CodeCanceled}, Timeout, "execution_error", "", MarketError, false},
		{KindUnavailable, []string{wire.CodeUnavailable}, SourceError, "capability_unavailable", "409", MarketError, true},
		{KindDependency, []string{osDependencyMissing}, SourceError, "dependency_missing", "", MarketError, true},
		{KindNoData, []string{OSDataUnavailable}, DataUnavailable, "", "", MarketGap, true},
		{KindFabrication, []string{osFabrication}, FabricationDetected, "policy_blocked", "", MarketError, false},
		{KindPolicy, []string{wire.CodePolicyViolation}, SafetyViolation, "policy_blocked", "", MarketError, false},
		{KindOverload, []string{wire.CodeOverloaded}, SourceError, "overloaded", "429", MarketError, true},
		// The specifications' table ends above. To its caller, a tool that ran and
		// failed is a source that could not answer.
		{KindFailed, []string{wire.CodeFailed, wire.CodeInternal, osHandlerFailed}, SourceError, "execution_error", "", MarketError, true},
	}
}

// Error says why a message was refused or not answered. Its Kind determines the
// code in every protocol.
type Error struct {
	Kind Kind
	// Field is the path of the offending field, such as "payload.content.code"; ""
	// means the whole message.
	Field string
	// Reason is safe to show: it repeats nothing of the content.
	Reason string
	// Law is the violated evidence law, "" for none.
	Law   Law
	cause error
}

func (e *Error) Error() string {
	text := string(e.Code())
	if e.Field != "" {
		text += ": " + e.Field
	}
	return text + ": " + e.Reason
}

func (e *Error) Unwrap() error { return e.cause }

// Row returns the error's row of the table; for an unknown kind it is KindFailed's.
func (e *Error) Row() Row {
	table := table()
	if i := slices.IndexFunc(table, func(r Row) bool { return r.Kind == e.Kind }); i >= 0 {
		return table[i]
	}
	return table[len(table)-1]
}

// Code is the error's code in messages.
func (e *Error) Code() Code { return e.Row().Code }

// Failure renders the error for the pipeline, and so for the runtime protocol.
func (e *Error) Failure() pipeline.Failure {
	row := e.Row()
	text := e.Reason
	if e.Field != "" {
		text = e.Field + ": " + e.Reason
	}
	return pipeline.Failure{Code: row.OS[0], Message: wire.SafeText(text), Retryable: row.Retryable}
}

// FromOS returns the Error for a dotted code of the runtime protocol. A code in no
// row, such as an agent's own, is KindFailed. Likely secrets in reason are masked.
func FromOS(code, reason string) *Error {
	reason = redact.Text(wire.SafeText(reason))
	for _, row := range table() {
		if slices.Contains(row.OS, code) {
			return &Error{Kind: row.Kind, Reason: reason}
		}
	}
	return &Error{Kind: KindFailed, Reason: reason}
}

// FromError returns the Error for an error of a pipeline, a handler or an agent
// connection. An unknown error is KindFailed, without its text, which may hold
// anything. The result for nil is nil.
func FromError(err error) *Error {
	var own *Error
	var remote *wire.Error
	var failed *pipeline.HandlerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &remote):
		return FromOS(remote.Code, remote.Message)
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: KindDeadline, Reason: "the deadline has passed", cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: KindCanceled, Reason: "the caller canceled", cause: err}
	case errors.As(err, &failed):
		return FromOS(failed.Failure.Code, failed.Failure.Message)
	}

	return fromPipeline(err)
}

func fromPipeline(err error) *Error {
	newError := func(kind Kind, reason string) *Error { return &Error{Kind: kind, Reason: reason, cause: err} }
	switch {
	case errors.Is(err, pipeline.ErrRouteNotFound), errors.Is(err, pipeline.ErrNoDirective):
		return newError(KindUnauthorized, "the sender may not send this message here")
	case errors.As(err, new(*pipeline.MalformedError)), errors.As(err, new(*pipeline.ValidationError)),
		errors.As(err, new(*pipeline.ResponseError)):
		return newError(KindInvalid, "the envelope or its payload is malformed")
	case errors.Is(err, pipeline.ErrThreadBusy), errors.Is(err, pipeline.ErrChainExhausted):
		return newError(KindOverload, "the conversation has too many messages in flight")
	}
	return newError(KindFailed, "the work failed")
}

// invalid returns a VALIDATION_FAILED error.
func invalid(field, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Field: field, Reason: fmt.Sprintf(format, args...)}
}

// fabricated returns a FABRICATION_DETECTED error for a violation of the named law.
func fabricated(law Law, field, reason string) *Error {
	return &Error{Kind: KindFabrication, Field: field, Reason: reason, Law: law}
}
