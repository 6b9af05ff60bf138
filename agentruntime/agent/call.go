package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

var errCanceled = errors.New("canceled by the caller")

// Call is one invocation as its handler sees it. Its methods are safe for
// concurrent use until the handler returns.
type Call struct {
	ID             string
	Tool           string // name without the agent's id
	Input          json.RawMessage
	RequestID      string
	CorrelationID  string
	CausationID    string
	IdempotencyKey string
	Actor          *wire.Actor       // metadata, never authority
	Context        *wire.CallContext // nil if the caller sent none

	session *Session
	tool    *boundTool
	request *wire.Message
	ctx     context.Context // of this call only; it is why Stream needs no ctx
	cancel  context.CancelCauseFunc
	timer   context.CancelFunc
	started time.Time

	mu       sync.Mutex // orders chunks; holds back the result until they are queued
	seq      int64
	streamed int64
	ended    bool
}

// Decode unmarshals the input, which the schema has already been checked
// against, into v.
func (c *Call) Decode(v any) error {
	if err := json.Unmarshal(c.Input, v); err != nil {
		return Fail(wire.CodeInvalidInput, "input has the wrong shape")
	}
	return nil
}

// Stream sends text on a channel other than PartialResult, in several chunks
// if it is long. It waits while the node does not read.
func (c *Call) Stream(channel wire.Channel, text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for {
		part := text
		if len(part) > maxChunkBytes {
			cut := maxChunkBytes
			for !utf8.RuneStart(part[cut]) {
				cut--
			}
			part = part[:cut]
		}

		if err := c.chunk(len(part), wire.ToolStream{Channel: channel, Data: wire.StreamData{Text: &part}}); err != nil {
			return err
		}
		if text = text[len(part):]; text == "" {
			return nil
		}
	}
}

// Partial sends v, which must marshal to an object, as a partial result.
func (c *Call) Partial(v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("marshal partial result: %w", err)
	}
	return c.chunk(len(doc), wire.ToolStream{Channel: wire.PartialResult, Data: wire.StreamData{JSON: doc}})
}

// Done announces that no further chunk follows; the result still does.
func (c *Call) Done() error {
	empty := ""
	return c.chunk(0, wire.ToolStream{Channel: wire.Status, Data: wire.StreamData{Text: &empty}, Done: true})
}

func (c *Call) chunk(size int, p wire.ToolStream) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ended {
		return ErrStreamEnded
	}

	// Small chunks count as more than they hold, so that their number is
	// bounded, too. The end may always be told.
	total := c.streamed + int64(size) + chunkOverhead
	if total > c.session.cfg.MaxStreamBytes && !p.Done {
		return ErrStreamLimit
	}
	c.streamed = total
	c.seq++
	c.ended = p.Done
	p.CallID, p.Seq = c.ID, c.seq
	msg := &wire.Message{Payload: &p}
	msg.Echo(c.request)
	return c.session.out.Send(c.ctx, msg)
}

// admit returns a call that is to be run, or refuses it. It does not wait.
func (s *Session) admit(ctx context.Context, msg *wire.Message, p *wire.ToolCall) *Call {
	tool := s.tools[p.ToolID]
	c := &Call{
		ID: p.CallID, Input: p.Input, RequestID: msg.RequestID, CorrelationID: msg.CorrelationID,
		CausationID: msg.CausationID, IdempotencyKey: p.IdempotencyKey, Actor: msg.Actor,
		Context: p.Context, session: s, tool: tool, request: msg, started: time.Now(),
	}
	s.mu.Lock()
	_, duplicate := s.calls[c.ID]

	// Twice: a result may have been written, and its next call be here, before the
	// goroutine that wrote it goes on.
	full := len(s.calls) >= s.cfg.MaxInflight || s.sending.Load() >= 2*int64(s.cfg.MaxInflight) || s.stopping
	if !duplicate && !full && tool != nil {
		s.calls[c.ID] = c
		s.wg.Add(1)
	}

	// Set before the lock is given up: a cancel may follow at once.
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.ctx, c.timer = withTimeout(c.ctx, p.TimeoutMS, tool)
	s.mu.Unlock()

	switch {
	case duplicate:
		// A result would end the running call of this id.
		answer := &wire.Message{
			InReplyTo: msg.ID, Payload: &wire.AgentError{},
			Error: &wire.Error{Code: wire.CodeDuplicateCall, Message: "a call with this id is running", Where: "agent.runtime"},
		}
		answer.Echo(msg)
		s.reply(answer)
	case full:
		s.reply(c.message(c.failed(&Error{Code: wire.CodeOverloaded, Message: "too many calls in flight", Retryable: true})))
	case tool == nil:
		s.reply(c.message(c.failed(Fail(wire.CodeUnavailable, "no such tool"))))
	default:
		c.Tool = tool.Name
		return c
	}

	c.timer()
	c.cancel(nil)
	return nil
}

// withTimeout applies the stricter of the caller's and the tool's limit.
func withTimeout(ctx context.Context, ms int64, tool *boundTool) (context.Context, context.CancelFunc) {
	limit := min(time.Duration(ms), 24*time.Hour/time.Millisecond) * time.Millisecond
	if tool != nil && tool.Timeout > 0 && (limit == 0 || tool.Timeout < limit) {
		limit = tool.Timeout
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

func (s *Session) cancelCall(msg *wire.Message, p *wire.ToolCancel) {
	s.mu.Lock()
	c := s.calls[p.CallID]
	s.mu.Unlock()
	ack := &wire.Message{InReplyTo: msg.ID, Payload: &wire.CancelAck{CallID: p.CallID, Accepted: c != nil}}
	ack.Echo(msg)
	if c != nil {
		ack.Echo(c.request)
		c.cancel(errCanceled)
	}
	s.reply(ack)
}

// runCall runs a call to its one result.
func (s *Session) runCall(c *Call) {
	defer s.wg.Done()
	defer c.cancel(nil)
	defer c.timer()

	result := s.replays.do(c, c.execute)
	c.tool.quick.Store(time.Since(c.started) < quickCall)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()

	// Its place is free once the result may be read, and not later: the node
	// counts so too. What waits to be read is bounded apart.
	s.mu.Lock()
	delete(s.calls, c.ID)
	s.sending.Add(1)
	s.mu.Unlock()
	defer s.sending.Add(-1)

	result.CallID = c.ID

	// Not c.ctx: a canceled call has a result, too. Send ends when the
	// connection does.
	err := s.out.Send(context.Background(), c.message(result))
	if errors.Is(err, frame.ErrTooLarge) {
		err = s.out.Send(context.Background(), c.message(c.failed(tooLarge(s.cfg.MaxOutputBytes))))
	}
	if err != nil && !errors.Is(err, wire.ErrOutboxClosed) {
		// A handler's own error can be malformed; the call has an end all the same.
		_ = s.out.Send(context.Background(), c.message(c.failed(Fail(wire.CodeFailed, "the tool failed"))))
		s.cfg.Log.Error("send result", "call", c.ID, "err", err)
	}
}

func (c *Call) message(p *wire.ToolResult) *wire.Message {
	msg := &wire.Message{InReplyTo: c.request.ID, Payload: p}
	msg.Echo(c.request)
	return msg
}

func (c *Call) failed(e *Error) *wire.ToolResult {
	if e.Where == "" {
		e.Where = "agent.runtime"
	}
	return &wire.ToolResult{
		CallID: c.ID, Status: wire.Failed, Error: e,
		StartedAt: wire.Time{Time: c.started}, FinishedAt: wire.Time{Time: time.Now()},
	}
}

// execute validates the input, runs the handler and shapes what it returns.
func (c *Call) execute() *wire.ToolResult {
	if wrong := c.tool.input.check(c.Input); wrong != "" {
		return c.failed(Fail(wire.CodeInvalidInput, wrong))
	}
	value, err := c.invoke()
	if err != nil {
		return c.failure(err)
	}
	output := json.RawMessage("{}")
	if value != nil {
		if output, err = json.Marshal(value); err != nil {
			return c.failure(fmt.Errorf("marshal output: %w", err))
		}
	}

	if len(output) > c.session.cfg.MaxOutputBytes {
		return c.failed(tooLarge(c.session.cfg.MaxOutputBytes))
	}

	// The value checker of the protocol is stricter than encoding/json, for
	// example about a name that occurs twice.
	if v := jsontext.Value(output); v.Kind() != '{' || !v.IsValid() {
		return c.failed(Fail(wire.CodeInvalidOutput, "the tool's output is not an object"))
	}

	return &wire.ToolResult{
		CallID: c.ID, Status: wire.Succeeded, Output: output,
		StartedAt: wire.Time{Time: c.started}, FinishedAt: wire.Time{Time: time.Now()},
	}
}

// invoke turns a panic into an error that tells the caller nothing.
func (c *Call) invoke() (value any, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.session.cfg.Log.Error("tool panicked", "tool", c.Tool, "call", c.ID, "stack", string(debug.Stack()))
			value, err = nil, Fail(wire.CodeInternal, "the tool panicked")
		}
	}()
	return c.tool.Handler(c.ctx, c)
}

// failure names why the handler gave up. A cancellation wins over the error
// that it caused in the handler.
func (c *Call) failure(err error) *wire.ToolResult {
	var own *Error
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return c.failed(&Error{Code: wire.CodeTimeout, Message: "the call took too long", Retryable: true})
	case cause != nil:
		result := c.failed(Fail(wire.CodeCanceled, "the call was canceled"))
		result.Status = wire.Canceled
		return result
	case errors.As(err, &own):
		e := *own
		e.Message = wire.SafeText(e.Message)
		return c.failed(&e)
	}

	c.session.cfg.Log.Error("tool failed", "tool", c.Tool, "call", c.ID, "err", err)
	return c.failed(Fail(wire.CodeFailed, "the tool failed"))
}

func tooLarge(limit int) *Error {
	return Fail(wire.CodeOutputTooLarge, fmt.Sprintf("the output is larger than %d bytes", limit))
}
