package thinker

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Payload tags of the loop.
const (
	tagTask     = "AgentTask"
	TagAnswer   = "AgentResponse"
	TagRequest  = "LLMRequest"  // a chat.Request
	TagResponse = "LLMResponse" // a chat.Response
)

// Task is what an agent is asked to do.
type Task struct {
	Task string `json:"task"`
	// Context is what it should know, such as the curator's view of the thread.
	Context string `json:"context,omitempty"`
}

// Answer is what came of a task, and how.
type Answer struct {
	Text string `json:"text"`
	// FinishReason is chat.FinishLength where the text was cut at max_tokens.
	FinishReason string `json:"finish_reason"`
	Provenance
}

// Provenance says how an answer came about. It is in the details of a failure
// too.
type Provenance struct {
	// Model is the one that answered last, as the endpoint names it.
	Model      string        `json:"model"`
	Sampling   chat.Sampling `json:"sampling"`
	Iterations int           `json:"iterations"`
	ToolCalls  int           `json:"tool_calls"`
	// Usage is the sum of all questions; missing if one was not counted.
	Usage *chat.Usage `json:"usage,omitempty"`
}

// Schemas are the checks of the loop's own tags, for the pipeline. task is the
// tag of tasks, empty for TagTask.
func Schemas(task string) map[string]pipeline.Validate {
	if task == "" {
		task = tagTask
	}
	return map[string]pipeline.Validate{
		task:        func(b []byte) error { _, err := parseTask(b); return err },
		TagAnswer:   func(b []byte) error { return hashing.Unmarshal(b, &Answer{}) },
		TagRequest:  func(b []byte) error { _, err := parseRequest(b); return err },
		TagResponse: func(b []byte) error { _, err := parseResponse(b); return err },
	}
}

func parseTask(doc []byte) (Task, error) {
	var t Task
	if err := hashing.Unmarshal(doc, &t); err != nil {
		return t, fmt.Errorf("task: %w", err)
	}
	if t.Task == "" {
		return t, errors.New("task: is empty")
	}
	return t, nil
}

func parseRequest(doc []byte) (chat.Request, error) {
	var r chat.Request
	if err := hashing.Unmarshal(doc, &r); err != nil {
		return r, fmt.Errorf("model request: %w", err)
	}
	return r, r.Check()
}

func parseResponse(doc []byte) (chat.Response, error) {
	var r chat.Response
	if err := hashing.Unmarshal(doc, &r); err != nil {
		return r, fmt.Errorf("model response: %w", err)
	}
	return r, r.Check()
}

// toolError is what the model reads where a call has no answer, in the form of
// a tool's own failure.
func toolError(code, message string) string {
	doc, err := json.Marshal(map[string]pipeline.Failure{"error": {Code: code, Message: message}})
	if err != nil {
		return `{"error":{"code":"` + code + `"}}`
	}
	return string(doc)
}
