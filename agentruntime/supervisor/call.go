package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Call asks an agent to run a tool. The caller has been allowed to: the
// supervisor knows slots and sessions, but no permissions (OS-4.3.1.9).
type Call struct {
	AgentID string
	Tool    string          // name without the agent's id
	Input   json.RawMessage // object

	CallID         string // unique; "" makes one
	RequestID      string // "" makes one
	CorrelationID  string // "" repeats RequestID
	CausationID    string // id of the directive; required by tools that require one
	IdempotencyKey string
	Timeout        time.Duration // 0 means Limits.CallTimeout

	// Actor is on whose behalf the call is made: metadata only.
	Actor         *wire.Actor
	ProjectRoot   string
	ResourcePaths []string

	// OnStream gets the chunks in order, one at a time, and never after Call
	// has returned: Call waits for it. While it is slow, chunks are dropped
	// and counted.
	OnStream func(Chunk)
}

// Result is the end of a call that succeeded.
type Result struct {
	CallID     string
	Output     json.RawMessage // object, checked against the output schema
	Metrics    json.RawMessage // object from the agent, or nil
	StartedAt  time.Time       // agent's clock; zero if it sent none
	FinishedAt time.Time
	Duration   time.Duration // as measured here
	Stream     StreamStats
}

// prepare fills the defaults and checks the call before anything is sent.
func (s *session) prepare(c *Call) (*boundTool, *Error) {
	s.mu.Lock()
	tool := s.tools[c.Tool]
	s.mu.Unlock()
	if tool == nil {
		return nil, unavailable("the agent has not registered %s", c.Tool)
	}
	if tool.requiresDirective && c.CausationID == "" {
		return nil, failf(wire.CodeUnauthorized, "%s needs a directive", tool.id)
	}

	if c.CallID == "" {
		c.CallID = wire.NewID()
	}
	if c.RequestID == "" {
		c.RequestID = wire.NewID()
	}
	if c.CorrelationID == "" {
		c.CorrelationID = c.RequestID
	}
	if c.Timeout <= 0 {
		c.Timeout = s.spec.Limits.CallTimeout
	}
	maxInput, _ := s.spec.byteLimits(c.Tool)
	if len(c.Input) > maxInput {
		return nil, failf(wire.CodeInvalidInput, "input is %d bytes, the limit is %d", len(c.Input), maxInput)
	}
	if jsontext.Value(c.Input).Kind() != '{' { // the rest Validate parses, strictly
		return nil, failf(wire.CodeInvalidInput, "input is not a JSON object")
	}
	if s.leaks(c.Input) {
		return nil, failf(wire.CodePolicyViolation, "input holds a secret")
	}
	if err := tool.input.Validate(c.Input); err != nil {
		return nil, failf(wire.CodeInvalidInput, "%s", err)
	}

	return tool, nil
}

// maxSuspected bounds the part of an input that is searched for secrets, in bytes.
const maxSuspected = 256 << 10

// suspects reports whether an input contains a text that looks like a secret in a place
// that the tool's schema does not mark. The call is made anyway, because harmless texts
// can look like secrets, but the audit trail records it (OS-7.2.1).
func (t *boundTool) suspects(input []byte) bool {
	marked, err := t.input.Secrets(input, func([]byte) ([]byte, error) { return []byte("null"), nil })
	if err != nil {
		return false // a valid input is none of this
	}
	plain := jsontext.Value(slices.Clone(marked))
	if err := plain.Canonicalize(); err != nil { // no escape hides a letter
		return false
	}
	return redact.Holds(string(plain[:min(len(plain), maxSuspected)]))
}

func (c *Call) message(tool *boundTool) *wire.Message {
	p := &wire.ToolCall{
		CallID: c.CallID, ToolID: tool.id, Input: c.Input,
		TimeoutMS: max(1, c.Timeout.Milliseconds()), IdempotencyKey: c.IdempotencyKey,
	}
	if c.Actor != nil {
		p.Caller = &wire.Caller{Type: c.Actor.Type, ID: c.Actor.ID}
	}
	if c.ProjectRoot != "" || len(c.ResourcePaths) > 0 {
		p.Context = &wire.CallContext{ProjectRoot: c.ProjectRoot, ResourcePaths: c.ResourcePaths}
	}
	return &wire.Message{
		ID: wire.NewID(), RequestID: c.RequestID, CorrelationID: c.CorrelationID,
		CausationID: c.CausationID, Actor: c.Actor, Payload: p,
	}
}

// call makes the call c and returns its outcome.
func (s *session) call(ctx context.Context, c Call) (Result, *Error) {
	begin := time.Now()
	if err := ctx.Err(); err != nil {
		return Result{}, canceled(err)
	}
	tool, failure := s.prepare(&c)
	if failure != nil {
		return Result{}, failure
	}
	msg := c.message(tool)
	flight := &inflight{id: c.CallID, messageID: msg.ID, requestID: c.RequestID, outcome: make(chan outcome, 1)}
	if c.OnStream != nil {
		flight.stream = &stream{onStream: c.OnStream}
	}
	if failure := s.admit(flight); failure != nil {
		return Result{}, failure
	}
	if failure := s.send(msg); failure != nil {
		s.withdraw(flight)
		return Result{}, failure
	}

	s.audit(AuditEvent{Type: auditCallRouted, Tool: c.Tool, CallID: c.CallID, RequestID: c.RequestID, Causation: c.CausationID})
	if tool.suspects(c.Input) {
		s.audit(AuditEvent{Type: auditSecretSuspected, Tool: c.Tool, CallID: c.CallID, RequestID: c.RequestID, Reason: "the input holds what looks like a secret"})
	}
	o := s.await(ctx, flight, c.Timeout)
	if flight.stream != nil {
		flight.stream.wait()
	}
	result, failure := s.judge(&c, tool, o)
	result.Duration = time.Since(begin)
	result.Stream = s.streamStats(flight)
	s.auditEnd(&c, failure)
	return result, failure
}

func (s *session) send(msg *wire.Message) *Error {
	switch err := s.out.TrySend(msg); {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrOutboxFull):
		e := failf(wire.CodeOverloaded, "the agent does not read")
		e.Retryable = true
		return e
	case errors.Is(err, wire.ErrOutboxClosed):
		return unavailable("the agent's session is ending")
	case errors.Is(err, frame.ErrTooLarge):
		return failf(wire.CodeInvalidInput, "the call does not fit in a frame")
	default:
		return failf(wire.CodeInvalidInput, "%s", err)
	}
}

// await waits for the outcome. After the timeout, or when the caller's context ends, it
// asks the agent to cancel and gives up CancelGrace later: an agent may ignore the
// request and must not block the caller (OS-4.4.1.3).
func (s *session) await(ctx context.Context, c *inflight, timeout time.Duration) outcome {
	begin := time.Now()
	s.readFor(ctx, c, timeout)
	if len(c.outcome) > 0 {
		return <-c.outcome
	}
	timer := time.NewTimer(timeout - time.Since(begin))
	defer timer.Stop()

	var failure *Error
	select {
	case o := <-c.outcome:
		return o
	case <-timer.C:
		failure = failf(wire.CodeTimeout, "no result within %s", timeout)
		failure.Retryable = true
	case <-ctx.Done():
		failure = canceled(ctx.Err())
	}

	// If the agent does not read, giving up is all that is left to do.
	_ = s.out.TrySend(&wire.Message{RequestID: c.requestID, Payload: &wire.ToolCancel{
		CallID: c.id, Reason: failure.Code, DeadlineMS: s.cfg.CancelGrace.Milliseconds(),
	}})
	grace := time.NewTimer(s.cfg.CancelGrace)
	defer grace.Stop()

	select {
	case o := <-c.outcome:
		return settle(o, failure)
	case <-grace.C:
	}

	if !s.abandon(c) {
		return settle(<-c.outcome, failure)
	}
	if s.spec.Limits.KillRunaway {
		s.close(errRunaway)
		s.conn.Close()
	}

	return outcome{err: failure}
}

// settle chooses between an outcome that came after the cancel and the reason for the
// cancel. A success stays a success (OS-4.4.2.2).
func settle(o outcome, failure *Error) outcome {
	if o.result != nil && o.result.Status == wire.Succeeded {
		return o
	}
	return outcome{err: failure}
}

func canceled(cause error) *Error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return &Error{Code: wire.CodeTimeout, Message: "the caller's deadline is over", Retryable: true, cause: cause}
	}
	return &Error{Code: wire.CodeCanceled, Message: "canceled by the caller", cause: cause}
}

// judge turns an outcome into the caller's result. It checks the output even if the
// agent has checked it (K-11).
func (s *session) judge(c *Call, tool *boundTool, o outcome) (Result, *Error) {
	if o.err != nil {
		// A call that may have run is safe to repeat only with a key (M-16).
		if o.err.Code == wire.CodeUnavailable && !o.err.FromAgent {
			o.err.Retryable = c.IdempotencyKey != ""
		}
		return Result{CallID: c.CallID}, o.err
	}

	r := o.result
	result := Result{CallID: c.CallID, Metrics: r.Metrics, StartedAt: r.StartedAt.Time, FinishedAt: r.FinishedAt.Time}
	if r.Status != wire.Succeeded {
		return result, s.toolError(r)
	}

	_, maxOutput := s.spec.byteLimits(c.Tool)
	v := jsontext.Value(r.Output)
	switch {
	case len(r.Output) > maxOutput:
		return result, failf(wire.CodeOutputTooLarge, "output is %d bytes, the limit is %d", len(r.Output), maxOutput)
	case len(r.Output) == 0 || v.Kind() == 'n':
		v = jsontext.Value("{}") // "output (object, optional)"
	case v.Kind() != '{':
		return result, failf(wire.CodeInvalidOutput, "output is not an object")
	case s.leaks(r.Output):
		return result, failf(wire.CodePolicyViolation, "output holds a secret")
	}

	if tool.output != nil {
		if err := tool.output.Validate(json.RawMessage(v)); err != nil {
			return result, failf(wire.CodeInvalidOutput, "%s", err)
		}
	}

	result.Output = json.RawMessage(v)
	return result, nil
}

// toolError returns the error of an agent's result, without secrets.
func (s *session) toolError(r *wire.ToolResult) *Error {
	e := r.Error
	if e == nil {
		e = &wire.Error{Code: wire.CodeFailed, Message: "the tool failed"}
		if r.Status == wire.Canceled {
			e = &wire.Error{Code: wire.CodeCanceled, Message: "the agent canceled the call"}
		}
	}

	failure := fromAgent(e)
	if s.leaks([]byte(failure.Message)) || s.leaks(failure.Details) {
		return failf(wire.CodePolicyViolation, "the agent's error holds a secret")
	}
	return failure
}

func (s *session) auditEnd(c *Call, failure *Error) {
	code := ""
	if failure != nil {
		code = auditCode(failure)
	}
	s.audit(AuditEvent{
		Type: auditCallCompleted, Tool: c.Tool, CallID: c.CallID, RequestID: c.RequestID,
		Causation: c.CausationID, Code: code,
	})
}
