package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/hashing"
)

// A request is the document that the API knows, and reads back as it was.
func TestRequestJSON(t *testing.T) {
	half, seed := 0.5, int64(-3)
	format, err := JSONSchema("verdict", json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := Request{
		Model: "m", ToolChoice: "none", ResponseFormat: format, Tools: []Tool{Offer("look", "looks", json.RawMessage(`{"type":"object"}`))},
		Messages: []Message{
			{Role: RoleSystem, Content: "be good"},
			{Role: RoleAssistant, ToolCalls: []ToolCall{{"1", "function", FunctionCall{"look", "{ }"}}}},
			{Role: RoleTool, ToolCallID: "1", Content: "nothing"},
		},
		Sampling: Sampling{MaxTokens: 9, Temperature: &half, TopP: &half, Seed: &seed},
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","messages":[{"role":"system","content":"be good"},` +
		`{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":"{ }"}}]},` +
		`{"role":"tool","content":"nothing","tool_call_id":"1"}],` +
		`"tools":[{"type":"function","function":{"name":"look","description":"looks","parameters":{"type":"object"}}}],"tool_choice":"none",` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"verdict","schema":{"type":"object"},"strict":true}},` +
		`"max_tokens":9,"temperature":0.5,"top_p":0.5,"seed":-3}`
	if string(doc) != want {
		t.Errorf("got\n%s\nwant\n%s", doc, want)
	}
	var back Request
	if err := hashing.Unmarshal(doc, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
}

func TestResponseCheck(t *testing.T) {
	call := ToolCall{"1", "function", FunctionCall{"look", ""}}
	good := func() Response {
		return Response{Model: "m", FinishReason: FinishStop, Message: Message{Role: RoleAssistant, ToolCalls: []ToolCall{call}}, Usage: &Usage{}, Attempts: 1}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Response){
		"role":          func(r *Response) { r.Message.Role = RoleUser },
		"unfinished":    func(r *Response) { r.FinishReason = "" },
		"long finish":   func(r *Response) { r.FinishReason = strings.Repeat("x", maxFinishText+1) },
		"long model":    func(r *Response) { r.Model = strings.Repeat("x", MaxNameBytes+1) },
		"model":         func(r *Response) { r.Model = "\xff" },
		"fingerprint":   func(r *Response) { r.SystemFingerprint = "\xff" },
		"tokens":        func(r *Response) { r.Usage.CompletionTokens = 1 << 60 },
		"content":       func(r *Response) { r.Message.Content = "\xff" },
		"answers":       func(r *Response) { r.Message.ToolCallID = "1" },
		"calls twice":   func(r *Response) { r.Message.ToolCalls = []ToolCall{call, call} },
		"many calls":    func(r *Response) { r.Message.ToolCalls = slices.Repeat([]ToolCall{call}, MaxToolCalls+1) },
		"call id":       func(r *Response) { r.Message.ToolCalls[0].ID = "" },
		"call type":     func(r *Response) { r.Message.ToolCalls[0].Type = "shell" },
		"call name":     func(r *Response) { r.Message.ToolCalls[0].Function.Name = "" },
		"call argument": func(r *Response) { r.Message.ToolCalls[0].Function.Arguments = "\xff" },
		"max_tokens":    func(r *Response) { r.Sampling.MaxTokens = -1 },
	} {
		r := good()
		if change(&r); r.Check() == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestError(t *testing.T) {
	codes := map[string]bool{}
	for _, reason := range []error{ErrUnauthorized, ErrRateLimited, ErrUnavailable, ErrRefused, ErrBadResponse, ErrTooLarge, ErrTimeout} {
		err := error(&Error{Reason: reason, Status: 418, Attempts: 2, Detail: "teapot", RetryAfter: time.Second})
		failed := err.(*Error)
		if !errors.Is(fmt.Errorf("ask: %w", err), reason) || codes[failed.Code()] || !strings.HasPrefix(failed.Code(), "model.") {
			t.Errorf("%v: code %s", err, failed.Code())
		}
		codes[failed.Code()] = true
		if want := reason.Error() + " (HTTP 418) after 2 attempts: teapot"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if later := reason == ErrRateLimited || reason == ErrUnavailable || reason == ErrTimeout; failed.Retryable() != later {
			t.Errorf("%v: retryable %v", reason, failed.Retryable())
		}
	}
}
