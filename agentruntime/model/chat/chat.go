// Package chat defines a conversation with a language model: requests, responses
// and errors. The JSON forms are those of the OpenAI chat completions API. The
// package cannot reach a model; package model does.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// Bounds of a request and a response.
const (
	maxMessages   = 4096
	MaxTools      = 256
	MaxToolCalls  = 64 // in one message
	MaxNameBytes  = 256
	maxFinishText = 64
	maxMaxTokens  = 1<<31 - 1
	maxSafeInt    = 1<<53 - 1
)

// Roles of a message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one turn. Content may be empty where there are tool calls.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// ToolCalls are set on messages of the assistant. ToolCallID says which call a
	// message with the role tool answers.
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is the model's request to call a tool. Type is "function".
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function FunctionCall `json:"function"`
}

// FunctionCall names a tool. Arguments are unchecked, byte for byte as the model
// wrote them: usually, but not always, JSON.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool describes a tool to the model. Type is "function".
type Tool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function describes a tool; Parameters is the JSON Schema of its arguments.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// Offer returns a Tool.
func Offer(name, description string, parameters json.RawMessage) Tool {
	return Tool{"function", Function{name, description, parameters}}
}

// Sampling controls how the model picks its words. Unset fields leave it to the
// endpoint.
type Sampling struct {
	MaxTokens   int      `json:"max_tokens,omitempty"`  // 0: the endpoint's own limit
	Temperature *float64 `json:"temperature,omitempty"` // 0 to 2
	TopP        *float64 `json:"top_p,omitempty"`       // 0 to 1
	Seed        *int64   `json:"seed,omitempty"`
}

// Request is one question to a model.
type Request struct {
	// Model is the endpoint's name of the model; "" means the endpoint's default.
	Model    string    `json:"model,omitempty"`
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`
	// ToolChoice is auto, none, required or "".
	ToolChoice string `json:"tool_choice,omitempty"`
	// ResponseFormat is a JSON object of the API; see [JSONSchema].
	ResponseFormat json.RawMessage `json:"response_format,omitempty"`
	Sampling
}

// JSONSchema returns a response format that requests JSON of one schema. Not every
// endpoint enforces it, so validate the answer.
func JSONSchema(name string, schema json.RawMessage) (json.RawMessage, error) {
	type named struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	}
	return json.Marshal(struct {
		Type       string `json:"type"`
		JSONSchema named  `json:"json_schema"`
	}{"json_schema", named{name, schema, true}})
}

// Usage counts tokens as reported by the endpoint.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// Finish reasons that all endpoints use.
const (
	FinishStop      = "stop"
	FinishLength    = "length"
	FinishToolCalls = "tool_calls"
)

// Response is a model's answer with details of how it was made.
type Response struct {
	// Model is the endpoint's name of the model that answered.
	Model        string  `json:"model"`
	Message      Message `json:"message"` // of the assistant
	FinishReason string  `json:"finish_reason"`
	// Usage is nil if the endpoint reports none.
	Usage *Usage `json:"usage,omitempty"`
	// Sampling repeats the request's.
	Sampling          Sampling `json:"sampling"`
	SystemFingerprint string   `json:"system_fingerprint,omitempty"`
	// Attempts is the number of requests that were sent, at least 1.
	Attempts int `json:"attempts"`
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// ValidToolName reports whether endpoints accept s as the name of a tool.
func ValidToolName(s string) bool { return toolName.MatchString(s) }

// Check refuses requests that no endpoint should get.
func (r Request) Check() error {
	switch {
	case len(r.Messages) == 0 || len(r.Messages) > maxMessages:
		return fmt.Errorf("chat request: needs 1 to %d messages", maxMessages)
	case len(r.Tools) > MaxTools:
		return fmt.Errorf("chat request: offers more than %d tools", MaxTools)
	case !name(r.Model, 0):
		return errors.New("chat request: the model's name is malformed")
	case r.ResponseFormat != nil && hashing.Check(r.ResponseFormat) != nil:
		return errors.New("chat request: response_format is not JSON")
	}

	switch r.ToolChoice {
	case "", "auto", "none", "required":
	default:
		return errors.New("chat request: tool_choice must be auto, none or required")
	}

	for i, m := range r.Messages {
		if err := m.check(); err != nil {
			return fmt.Errorf("chat request: message %d: %w", i, err)
		}
	}

	seen := map[string]bool{}
	for _, t := range r.Tools {
		switch f := t.Function; {
		case t.Type != "function" || !ValidToolName(f.Name):
			return fmt.Errorf("chat request: tool %.80q has an invalid name or type", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("chat request: tool %s is offered twice", f.Name)
		case f.Parameters != nil && hashing.Check(f.Parameters) != nil:
			return fmt.Errorf("chat request: the schema of tool %s is not JSON", f.Name)
		case !utf8.ValidString(f.Description):
			return fmt.Errorf("chat request: the description of tool %s is not UTF-8", f.Name)
		default:
			seen[f.Name] = true
		}
	}

	return r.Sampling.Check()
}

// Check refuses values out of range.
func (s Sampling) Check() error {
	switch {
	case s.MaxTokens < 0 || s.MaxTokens > maxMaxTokens:
		return errors.New("max_tokens is out of range")
	case s.Temperature != nil && !(*s.Temperature >= 0 && *s.Temperature <= 2):
		return errors.New("temperature is not from 0 to 2")
	case s.TopP != nil && !(*s.TopP >= 0 && *s.TopP <= 1):
		return errors.New("top_p is not from 0 to 1")
	case s.Seed != nil && (*s.Seed < -maxSafeInt || *s.Seed > maxSafeInt):
		return errors.New("seed is out of range")
	}
	return nil
}

// Check refuses answers with which a conversation cannot continue.
func (r Response) Check() error {
	switch {
	case r.Message.Role != RoleAssistant:
		return errors.New("chat response: the message is not the assistant's")
	case r.FinishReason == "" || len(r.FinishReason) > maxFinishText || !utf8.ValidString(r.FinishReason):
		return errors.New("chat response: finish_reason is missing or malformed")
	case !name(r.Model, 0) || !name(r.SystemFingerprint, 0):
		return errors.New("chat response: the model's name is malformed")
	case r.Usage != nil && !r.Usage.sane():
		return errors.New("chat response: token counts are out of range")
	}

	if err := r.Message.check(); err != nil {
		return fmt.Errorf("chat response: %w", err)
	}
	return r.Sampling.Check()
}

func (u Usage) sane() bool {
	return u.PromptTokens >= 0 && u.PromptTokens <= maxSafeInt && u.CompletionTokens >= 0 && u.CompletionTokens <= maxSafeInt
}

func (m Message) check() error {
	switch m.Role {
	case RoleSystem, RoleUser, RoleAssistant:
		if m.ToolCallID != "" {
			return errors.New("tool_call_id is only for messages with the role tool")
		}
	case RoleTool:
		if !name(m.ToolCallID, 1) {
			return errors.New("tool_call_id is missing")
		}
	default:
		return fmt.Errorf("role %.80q is unknown", m.Role)
	}

	if !utf8.ValidString(m.Content) {
		return errors.New("content is not UTF-8")
	}
	if len(m.ToolCalls) > MaxToolCalls {
		return fmt.Errorf("has more than %d tool calls", MaxToolCalls)
	}
	if len(m.ToolCalls) > 0 && m.Role != RoleAssistant {
		return errors.New("only the assistant may call tools")
	}

	seen := map[string]bool{}
	for _, c := range m.ToolCalls {
		switch {
		case !name(c.ID, 1) || c.Type != "function" || !name(c.Function.Name, 1):
			return errors.New("a tool call has an invalid id, type or name")
		case !utf8.ValidString(c.Function.Arguments):
			return errors.New("the arguments of a tool call are not UTF-8")
		case seen[c.ID]:
			return errors.New("two tool calls have the same id")
		}
		seen[c.ID] = true
	}

	return nil
}

func name(s string, shortest int) bool {
	return len(s) >= shortest && len(s) <= MaxNameBytes && utf8.ValidString(s)
}
