// Package scripted is a model endpoint for tests. It plays a script of answers,
// valid or broken.
package scripted

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

// Step answers one request.
type Step func(w http.ResponseWriter, r *http.Request)

// Request is a received request.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Endpoint plays one step for each request; the last step is repeated. It is safe
// for concurrent use.
type Endpoint struct {
	mu       sync.Mutex
	steps    []Step
	requests []Request
}

// New returns an endpoint with at least one step.
func New(steps ...Step) *Endpoint { return &Endpoint{steps: steps} }

// Requests returns the requests received so far.
func (e *Endpoint) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Request(nil), e.requests...)
}

// ServeHTTP plays the next step.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // the list of models, which this endpoint does not offer
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	e.mu.Lock()
	e.requests = append(e.requests, Request{r.URL.Path, r.Header.Clone(), body})
	step := e.steps[min(len(e.requests), len(e.steps))-1]
	e.mu.Unlock()
	step(w, r)
}

// Raw answers with status 200 and a body.
func Raw(contentType, body string) Step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, body)
	}
}

// Status answers with a status, headers written as "Name: value", and a body.
func Status(code int, body string, headers ...string) Step {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// Text answers with text only.
func Text(text string) Step {
	return Message(chat.Message{Content: text}, chat.FinishStop)
}

// Call returns a tool call with the id "call-ID".
func Call(id, name, arguments string) chat.ToolCall {
	return chat.ToolCall{ID: "call-" + id, Type: "function", Function: chat.FunctionCall{Name: name, Arguments: arguments}}
}

// Calls answers with tool calls.
func Calls(calls ...chat.ToolCall) Step {
	return Message(chat.Message{ToolCalls: calls}, chat.FinishToolCalls)
}

// Message answers with a message, streamed if the request asks for it.
func Message(m chat.Message, finish string) Step {
	m.Role = chat.RoleAssistant
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "text/event-stream" {
			Stream(Events(m, finish)...)(w, r)
			return
		}
		Raw("application/json", fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"scripted-1","system_fingerprint":"fp",`+
			`"choices":[{"index":0,"message":%s,"logprobs":null,"finish_reason":%q}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, encode(m), finish))(w, r)
	}
}

// Events returns the events of a streamed message: text rune by rune, arguments in
// two halves.
func Events(m chat.Message, finish string) []string {
	event := func(delta, finish string) string {
		return fmt.Sprintf(`{"id":"x","model":"scripted-1","system_fingerprint":"fp","choices":[{"index":0,"delta":%s,"finish_reason":%s}],"usage":null}`, delta, finish)
	}
	all := []string{event(`{"role":"assistant","content":""}`, "null")}
	for _, r := range m.Content {
		all = append(all, event(`{"content":`+encode(string(r))+`}`, "null"))
	}

	for i, c := range m.ToolCalls {
		args := []rune(c.Function.Arguments)
		half := len(args) / 2
		all = append(
			all,
			event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}]}`,
				i, encode(c.ID), encode(c.Function.Name), encode(string(args[:half]))), "null"),
			event(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, encode(string(args[half:]))), "null"),
		)
	}

	return append(
		all,
		event(`{}`, encode(finish)),
		`{"id":"x","model":"scripted-1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`,
		"[DONE]",
	)
}

// Stream sends events and ends the stream.
func Stream(data ...string) Step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, d := range data {
			fmt.Fprintf(w, "data: %s\n\n", d)
			flush(w)
		}
	}
}

// Cut sends events and drops the connection.
func Cut(data ...string) Step {
	return func(w http.ResponseWriter, r *http.Request) {
		Stream(data...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// Stall sends events and then waits until the client gives up.
func Stall(data ...string) Step {
	return func(w http.ResponseWriter, r *http.Request) {
		Stream(data...)(w, r)
		flush(w)
		<-r.Context().Done()
	}
}

// Endless sends n megabytes of text in one answer, or until the client stops
// reading.
func Endless(contentType string, n int) Step {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		line := "data: " + strings.Repeat("x", 1<<10-9) + "\n\n"
		for range n << 10 {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func encode(v any) string {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err) // a mistake in the test's script
	}
	return string(doc)
}
