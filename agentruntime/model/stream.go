package model

import (
	"errors"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

// chunk is one event of a streamed answer.
type chunk struct {
	Model             string `json:"model"`
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Index int `json:"index"`
		Delta struct {
			Role      string          `json:"role"`
			Content   string          `json:"content"`
			ToolCalls []toolCallDelta `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *chat.Usage    `json:"usage"`
	Error *endpointError `json:"error"`
}

// toolCallDelta is a piece of a tool call: the first has id and name, each has a
// part of the arguments.
type toolCallDelta struct {
	Index    *int              `json:"index"`
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Function chat.FunctionCall `json:"function"`
}

// assembly collects the parts of a streamed answer.
type assembly struct {
	out  chat.Response
	text strings.Builder
	args []*strings.Builder // of out.Message.ToolCalls
}

func readStream(a *answer, onText func(string)) (chat.Response, error) {
	in, sum := newEvents(a.body, a.alive), &assembly{}
	for {
		data, err := in.next()
		switch {
		case errors.Is(err, io.EOF) && sum.out.FinishReason == "":
			return chat.Response{}, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF) || err == nil && string(data) == "[DONE]":
			return sum.response()
		case err != nil:
			return chat.Response{}, err
		}

		var c chunk
		if err := decode(data, &c); err != nil {
			return chat.Response{}, err
		}
		if c.Error != nil {
			return chat.Response{}, c.Error.unavailable()
		}
		if err := sum.add(a, c, onText); err != nil {
			return chat.Response{}, err
		}
	}
}

func (s *assembly) add(a *answer, c chunk, onText func(string)) error {
	keep(&s.out.Model, c.Model)
	keep(&s.out.SystemFingerprint, c.SystemFingerprint)
	if c.Usage != nil {
		s.out.Usage = c.Usage
	}

	for _, choice := range c.Choices {
		d := choice.Delta
		if choice.Index != 0 || d.Role != "" && d.Role != chat.RoleAssistant {
			return badResponse("an unrequested choice")
		}
		keep(&s.out.FinishReason, choice.FinishReason)
		if d.Content != "" {
			a.partDelivered = true
			s.text.WriteString(d.Content)
			onText(d.Content)
		}

		for _, t := range d.ToolCalls {
			a.partDelivered = true
			if err := s.addCall(t); err != nil {
				return err
			}
		}
	}

	return nil
}

// addCall adds a piece to its tool call. If an endpoint leaves out the index, each
// id starts a new call.
func (s *assembly) addCall(t toolCallDelta) error {
	calls := &s.out.Message.ToolCalls
	i := len(*calls) - 1
	if t.Index != nil {
		i = *t.Index
	} else if t.ID != "" || i < 0 {
		i++
	}

	if i < 0 || i > len(*calls) || i >= chat.MaxToolCalls {
		return badResponse("a tool call is out of order or exceeds the maximum")
	}
	if i == len(*calls) {
		*calls = append(*calls, chat.ToolCall{})
		s.args = append(s.args, &strings.Builder{})
	}

	call := &(*calls)[i]
	if t.ID != "" && call.ID != "" && t.ID != call.ID {
		return badResponse("two tool calls with one index")
	}
	keep(&call.ID, t.ID)
	keep(&call.Type, t.Type)
	keep(&call.Function.Name, t.Function.Name)
	s.args[i].WriteString(t.Function.Arguments)
	return nil
}

func (s *assembly) response() (chat.Response, error) {
	s.out.Message.Content = s.text.String()
	for i, b := range s.args {
		s.out.Message.ToolCalls[i].Function.Arguments = b.String()
	}
	return finish(s.out)
}

// keep keeps the first non-empty value, since some endpoints repeat it.
func keep(dst *string, v string) {
	if *dst == "" {
		*dst = v
	}
}
