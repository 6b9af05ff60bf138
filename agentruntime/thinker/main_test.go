package thinker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chatFunc asks some model.
type chatFunc func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error)

// providers are the models that the suite runs against: one that only exists in
// memory, and an endpoint that is spoken to over HTTP. Each says its turns in
// order, and the last for ever.
var providers = map[string]func(t *testing.T, turns ...chat.Message) chatFunc{
	"mock": mock,
	"http": func(t *testing.T, turns ...chat.Message) chatFunc {
		var steps []scripted.Step
		for _, m := range turns {
			steps = append(steps, scripted.Message(m, chat.FinishStop))
		}
		return endpoint(t, model.Config{}, steps...)
	},
}

func mock(_ *testing.T, turns ...chat.Message) chatFunc {
	var mu sync.Mutex
	asked := 0
	return func(_ context.Context, r chat.Request, onText func(string)) (chat.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		m := turns[min(asked, len(turns)-1)]
		asked++
		m.Role = chat.RoleAssistant
		if m.Content != "" {
			onText(m.Content)
		}
		return chat.Response{
			Model: "scripted-1", Message: m, FinishReason: chat.FinishStop, Usage: &chat.Usage{PromptTokens: 7, CompletionTokens: 3},
			Sampling: r.Sampling, Attempts: 1,
		}, nil
	}
}

func endpoint(t *testing.T, cfg model.Config, steps ...scripted.Step) chatFunc {
	t.Helper()
	server := httptest.NewServer(scripted.New(steps...))
	t.Cleanup(server.Close)
	cfg.BaseURL, cfg.Model = server.URL, "default"
	c, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.Chat
}

func say(text string) chat.Message { return chat.Message{Content: text} }

func call(calls ...chat.ToolCall) chat.Message { return chat.Message{ToolCalls: calls} }

// world is a node with one agent, a model, a tool that the agent has and one
// that only another profile has.
type world struct {
	*pipeline.Pipeline
	thinker *Thinker

	mu      sync.Mutex
	asked   []chat.Request
	called  []string // "handler payload"
	routed  []string // tags that were dispatched, in order
	entries []pipeline.Entry
	rejects []pipeline.Reject
}

func (w *world) Append(_ context.Context, entries ...pipeline.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, entries...)
	return nil
}

func (w *world) Reject(_ context.Context, r pipeline.Reject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejects = append(w.rejects, r)
}

// tool is a handler that notes what it is called with.
func (w *world) tool(name, tag string, answer pipeline.HandleFunc) pipeline.Handler {
	return pipeline.Handler{
		Name: name, Description: name, Tags: []string{tag}, Outputs: []string{tag + ".result"},
		Handle: func(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
			w.mu.Lock()
			w.called = append(w.called, name+" "+string(p.Bytes))
			w.mu.Unlock()
			return answer(ctx, p, c)
		},
	}
}

// replies answers every call with the same bytes.
func replies(tag, answer string) pipeline.HandleFunc {
	return func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
		return pipeline.Reply(tag+".result", []byte(answer)), nil
	}
}

func always(r pipeline.Response) pipeline.HandleFunc {
	return func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) { return r, nil }
}

var calc = Tool{
	Name: "calc", Description: "Computes.", Handler: "calculator", Tag: "CalcRequest", Answers: []string{"CalcRequest.result"},
	Schema: json.RawMessage(`{ "type": "object", "required": ["expression"] }`),
}

// config is an agent with the calculator.
func config() Config {
	return Config{
		Name: "coder", Description: "codes", Model: "model", Tools: []Tool{calc},
		Agent: Agent{Prompt: "base", Model: "opus", MaxTokens: 100, MaxIterations: 5}, Prompts: map[string]string{"base": "You are {agent_name}."},
	}
}

// build wires a world: the agent works under "researcher", which lacks erase.
func build(t *testing.T, cfg Config, ask chatFunc, calculator pipeline.HandleFunc) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.thinker, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	m, err := Model(ModelConfig{Name: "model", Description: "a model", Thinkers: []string{cfg.Name}, Chat: func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error) {
		w.mu.Lock()
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		return ask(ctx, r, onText)
	}})
	if err != nil {
		t.Fatal(err)
	}
	handlers := []pipeline.Handler{w.thinker.Handler(), m, w.tool("calculator", "CalcRequest", calculator), w.tool("eraser", "EraseRequest", replies("EraseRequest", "gone"))}
	if err := OneThinker(handlers, "model", []string{cfg.Name}); err != nil {
		t.Fatal(err)
	}
	w.Pipeline, err = pipeline.New(pipeline.Config{
		Handlers: handlers, Schemas: Schemas(cfg.Tag), Journal: w, Audit: w,
		Profiles: []pipeline.Profile{
			{Name: "researcher", Handlers: []string{cfg.Name, "model", "calculator"}},
			{Name: "admin", Handlers: []string{cfg.Name, "model", "calculator", "eraser"}},
		},
		Trace: func(s pipeline.Stage, h pipeline.Header) {
			if s == pipeline.StageDispatch {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.routed = append(w.routed, h.Tag)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ingress(task Task) pipeline.Ingress {
	doc, err := json.Marshal(task)
	if err != nil {
		panic(err)
	}
	return pipeline.Ingress{Namespace: "urn:test:v1", Tag: tagTask, Payload: doc, Thread: "root", Profile: "researcher", Sender: "outside"}
}

func (w *world) do(ctx context.Context, task Task) (Answer, error) {
	out, err := w.Submit(ctx, ingress(task))
	if err != nil {
		return Answer{}, err
	}
	if out.Reply.Tag() != TagAnswer {
		return Answer{}, errors.New("reply is " + out.Reply.Tag() + " " + string(out.Reply.Payload()))
	}
	var a Answer
	return a, json.Unmarshal(out.Reply.Payload(), &a)
}

// failure is the structured error a Submit ended with.
func failure(t *testing.T, err error) pipeline.Failure {
	t.Helper()
	var failed *pipeline.HandlerError
	if !errors.As(err, &failed) {
		t.Fatalf("no structured error: %v", err)
	}
	return failed.Failure
}

// toolAnswers are the answers that the model saw in its last question.
func (w *world) toolAnswers() []string {
	var all []string
	for _, m := range w.asked[len(w.asked)-1].Messages {
		if m.Role == chat.RoleTool {
			all = append(all, strings.TrimPrefix(m.ToolCallID, "call-")+" "+m.Content)
		}
	}
	return all
}
