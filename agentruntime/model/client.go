package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

const mediaJSON, mediaEvents = "application/json", "text/event-stream"

// chatRequest adds the fields of the transport to a chat.Request.
type chatRequest struct {
	chat.Request
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Chat sends one request. If onText is set, the answer is streamed and onText is
// called from this goroutine with each piece of text; tool calls are delivered
// whole, at the end. A failure of the endpoint is a *chat.Error; if ctx ends, the
// error is its cause.
func (c *Client) Chat(ctx context.Context, r chat.Request, onText func(text string)) (chat.Response, error) {
	if r.Model == "" {
		r.Model = c.cfg.Model
	}
	if err := r.Check(); err != nil {
		return chat.Response{}, err
	}
	if r.Model == "" {
		return chat.Response{}, errors.New("chat request: neither the request nor the configuration names a model")
	}

	wire := chatRequest{Request: r}
	if onText != nil {
		wire.Stream, wire.StreamOptions = true, &streamOptions{IncludeUsage: true}
	}
	body, err := json.Marshal(wire)
	if err != nil {
		return chat.Response{}, fmt.Errorf("encode chat request: %w", err)
	}
	var out chat.Response
	attempts, err := c.ask(ctx, question{
		path: "/chat/completions", body: body, stream: onText != nil,
		read: func(a *answer) (err error) {
			if a.media == mediaEvents {
				out, err = readStream(a, onText)
			} else {
				out, err = readCompletion(a)
				if err == nil && onText != nil && out.Message.Content != "" {
					onText(out.Message.Content) // the endpoint does not stream
				}
			}
			return err
		},
	})
	if err != nil {
		return chat.Response{}, err
	}
	if out.Model == "" {
		out.Model = r.Model
	}
	out.Attempts, out.Sampling = attempts, r.Sampling
	return out, nil
}

// completion is an answer without streaming.
type completion struct {
	Model             string `json:"model"`
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Message      chat.Message `json:"message"`
		FinishReason string       `json:"finish_reason"`
	} `json:"choices"`
	Usage *chat.Usage    `json:"usage"`
	Error *endpointError `json:"error"`
}

func readCompletion(a *answer) (chat.Response, error) {
	doc, err := io.ReadAll(a.body)
	a.partDelivered = len(doc) > 0
	if err != nil {
		return chat.Response{}, err
	}
	var c completion
	if err := decode(doc, &c); err != nil {
		return chat.Response{}, err
	}
	if c.Error != nil {
		return chat.Response{}, c.Error.unavailable()
	}
	if len(c.Choices) != 1 {
		return chat.Response{}, badResponse("%d choices", len(c.Choices))
	}

	return finish(chat.Response{
		Model: c.Model, Message: c.Choices[0].Message, FinishReason: c.Choices[0].FinishReason,
		Usage: c.Usage, SystemFingerprint: c.SystemFingerprint,
	})
}

// finish fills in fields that some endpoints leave out, and checks the others.
func finish(r chat.Response) (chat.Response, error) {
	if r.Message.Role == "" {
		r.Message.Role = chat.RoleAssistant
	}

	for i := range r.Message.ToolCalls {
		call := &r.Message.ToolCalls[i]
		if call.ID == "" {
			call.ID = fmt.Sprintf("call-%d", i)
		}
		if call.Type == "" {
			call.Type = "function"
		}
	}

	if err := r.Check(); err != nil {
		return chat.Response{}, badResponse("%v", err)
	}
	return r, nil
}
