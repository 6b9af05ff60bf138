package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	maxNotes = 64 // queued for one call's stream; more are dropped and counted

	// codeRequestTimeout is the TypeScript SDK's error code when the server's own
	// time limit for a request has passed.
	codeRequestTimeout = -32001
)

// activeCall is a call in progress.
type activeCall struct {
	token   string
	notes   chan note // closed, with the host's lock held, when the call ends
	dropped int       // guarded by the host's lock
}

// note is a notification that waits for the call's stream.
type note struct {
	channel wire.Channel
	text    string
}

// handler returns the handler for calls of one tool.
func (h *host) handler(t *remoteTool) agent.Handler {
	return func(ctx context.Context, c *agent.Call) (any, error) {
		run := h.begin()
		if run == nil {
			// The call did not reach the server, so it is safe to repeat.
			return nil, &agent.Error{Code: wire.CodeUnavailable, Message: "the server is being restarted", Retryable: true}
		}
		streamed := make(chan struct{})
		go func() {
			defer close(streamed)
			for n := range run.notes {
				// A stream at its limit does not end the call.
				_ = c.Stream(n.channel, n.text)
			}
		}()
		raw, err := h.invoke(ctx, t, c.Input, run.token)
		dropped := h.end(run)
		<-streamed
		if dropped > 0 {
			_ = c.Stream(wire.Log, strconv.Itoa(dropped)+" notifications dropped")
		}
		if err != nil {
			return nil, failure(ctx, err, raw != nil, t.repeatable() || c.IdempotencyKey != "")
		}
		return h.result(t, raw)
	}
}

// begin returns nil while the host is shutting down.
func (h *host) begin() *activeCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return nil
	}
	h.next++
	run := &activeCall{token: "call-" + strconv.FormatInt(h.next, 10), notes: make(chan note, maxNotes)}
	h.calls[run.token] = run
	return run
}

func (h *host) end(run *activeCall) (dropped int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, run.token)
	close(run.notes)
	if h.ending && len(h.calls) == 0 {
		close(h.idle)
	}
	return run.dropped
}

// invoke sends the call and returns the result as the server wrote it. The
// arguments are sent token for token as received, without spaces between tokens. If
// ctx ends, the SDK tells the server to cancel.
func (h *host) invoke(ctx context.Context, t *remoteTool, input json.RawMessage, token string) (json.RawMessage, error) {
	params := &sdk.CallToolParams{Name: t.Name, Arguments: input}
	params.SetProgressToken(token)
	if h.modern {
		params.Meta[metaLogLevel] = string(logLevel)
	}
	ctx, want := capturing(ctx)
	_, err := h.client.CallTool(ctx, params)
	return h.conn.forget(want), err
}

// failure says why a call has no result, and whose fault it is. answered says that
// the server sent a result that the SDK refused.
func failure(ctx context.Context, err error, hasAnswer, repeatable bool) error {
	var refused *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the agent's SDK tells a timeout from a cancellation
	case errors.As(err, &refused):
		return rejected(refused)
	case hasAnswer:
		return agent.Fail(wire.CodeInvalidOutput, "the server's result is malformed")
	}
	// The server may have performed the call before it died (M-16).
	return &agent.Error{Code: wire.CodeUnavailable, Message: "the server ended during the call", Retryable: repeatable}
}

// rejected converts a JSON-RPC error.
func rejected(e *jsonrpc.Error) error {
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		return agent.Fail(wire.CodeInvalidInput, e.Message)
	case jsonrpc.CodeMethodNotFound:
		return agent.Fail(wire.CodeUnavailable, e.Message)
	case codeRequestTimeout:
		return &agent.Error{Code: wire.CodeTimeout, Message: wire.SafeText(e.Message), Retryable: true}
	}
	return agent.Fail(wire.CodeFailed, e.Message)
}

// note handles a notification of the server. It runs on the reading goroutine and
// never blocks.
func (h *host) note(method string, params json.RawMessage) {
	switch method {
	case "notifications/progress":
		h.progress(params)
	case "notifications/message":
		h.logMessage(params)
	}
}

func (h *host) progress(params json.RawMessage) {
	var p struct {
		Token    jsontext.Value `json:"progressToken"`
		Progress float64        `json:"progress"`
		Total    *float64       `json:"total"`
		Message  string         `json:"message"`
	}
	var token string
	if jsonv2.Unmarshal(params, &p) != nil || jsonv2.Unmarshal(p.Token, &token) != nil {
		return
	}
	text := "progress " + strconv.FormatFloat(p.Progress, 'f', -1, 64)
	if p.Total != nil {
		text += "/" + strconv.FormatFloat(*p.Total, 'f', -1, 64)
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	h.mu.Lock()
	defer h.mu.Unlock()

	if run := h.calls[token]; run != nil {
		run.put(note{wire.Status, wire.SafeText(text)})
	}
}

// put must be called with the host's lock held.
func (r *activeCall) put(n note) {
	select {
	case r.notes <- n:
	default:
		r.dropped++
	}
}
