package thinker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func modelConfig() model.Config { return model.Config{Attempts: 1} }

// gullible is a model that does what anybody tells it: for every line "CALL
// name arguments" in what it reads last it calls that tool.
func gullible(read func(chat.Message) bool) chatFunc {
	return func(_ context.Context, r chat.Request, _ func(string)) (chat.Response, error) {
		m := chat.Message{Role: chat.RoleAssistant}
		last := r.Messages[len(r.Messages)-1]
		if read(last) {
			for line := range strings.Lines(last.Content) {
				if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "CALL "); ok {
					name, args, _ := strings.Cut(rest, " ")
					m.ToolCalls = append(m.ToolCalls, scripted.Call(name+string(rune('a'+len(m.ToolCalls))), name, args))
				}
			}
		}
		if len(m.ToolCalls) == 0 {
			m.Content = "done"
		}
		return chat.Response{Message: m, FinishReason: chat.FinishStop, Attempts: 1}, nil
	}
}

// However convincing a text is, and even if the model believes it, it makes no
// route: the handler that the profile lacks is never called, the table is the
// same, and nothing goes anywhere but to the agent, the model and its tools.
func TestInjections(t *testing.T) {
	requirements.Covers(t, "AP-8.5.2")
	files, err := filepath.Glob("testdata/injections/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	anything := func(chat.Message) bool { return true }
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for place, in := range map[string]struct {
			task Task
			tool string
		}{
			"task":    {Task{Task: text}, "ok"},
			"context": {Task{Task: "sum up", Context: text}, "ok"},
			"tool":    {Task{Task: "CALL calc 1"}, text},
		} {
			t.Run(filepath.Base(file)+"/"+place, func(t *testing.T) {
				w := build(t, config(), gullible(anything), replies("CalcRequest", in.tool))
				before, _ := w.Table("researcher")
				routes := before.Routes()
				if _, err := w.do(t.Context(), in.task); err != nil {
					if f := failure(t, err); f.Code != codeMaxIterations { // of a tool that tells it to go on for ever
						t.Fatal(err)
					}
				}
				after, _ := w.Table("researcher")
				if !slices.Equal(routes, after.Routes()) {
					t.Error("the table changed")
				}
				for _, c := range w.called {
					if !strings.HasPrefix(c, "calculator ") {
						t.Errorf("%s was called", c)
					}
				}
				for _, tag := range w.routed {
					if !slices.Contains([]string{tagTask, TagRequest, TagResponse, "CalcRequest", "CalcRequest.result"}, tag) {
						t.Errorf("%s was dispatched", tag)
					}
				}
				for _, r := range w.asked {
					if len(r.Tools) != 1 || strings.Contains(r.Messages[0].Content, "eras") {
						t.Error("the model was offered another tool")
					}
				}
				if len(w.asked) < 2 {
					t.Error("the model did not fall for it: the fixture has no call")
				}
			})
		}
	}
}

// Even an agent that was configured with a tool too many reaches only what the
// table of its thread has; the model reads that there is no such route.
func TestTableDecides(t *testing.T) {
	cfg := config()
	cfg.Tools = append(cfg.Tools, Tool{Name: "erase", Handler: "eraser", Tag: "EraseRequest", Answers: []string{"EraseRequest.result"}, Schema: calc.Schema})
	ask := mock(t, call(scripted.Call("1", "erase", "{}")), say("done"))
	w := build(t, cfg, ask, replies("CalcRequest", "ok"))
	a, err := w.do(t.Context(), Task{Task: "x"})
	if err != nil || a.Text != "done" || len(w.called) != 0 {
		t.Errorf("%+v, %v, called %q", a, err, w.called)
	}
	if read := w.asked[1].Messages; !strings.Contains(read[len(read)-1].Content, "route.not_found") {
		t.Errorf("the model read %+v", read)
	}
	// Under the profile that has it the same configuration works.
	w = build(t, cfg, mock(t, call(scripted.Call("1", "erase", "{}")), say("done")), replies("CalcRequest", "ok"))
	in := ingress(Task{Task: "x"})
	in.Profile = "admin"
	if _, err := w.Submit(t.Context(), in); err != nil || !slices.Equal(w.called, []string{"eraser {}"}) {
		t.Errorf("%v, called %q", err, w.called)
	}
}

// Only the agent can ask the model: not a tool, even with the model among its
// peers, and not the outside.
func TestOneThinker(t *testing.T) {
	requirements.Covers(t, "AP-11.6.1")
	question := []byte(`{"messages":[{"role":"user","content":"think for me"}],"max_tokens":1}`)
	w := build(t, config(), mock(t, say("done")), nil)
	in := ingress(Task{})
	in.Tag, in.Payload = TagRequest, question
	if _, err := w.Submit(t.Context(), in); failure(t, err).Code != "model.not_an_agent" || len(w.asked) != 0 {
		t.Errorf("outside: %v, %d questions", err, len(w.asked))
	}

	cunning := w.tool("cunning", "Cunning", always(pipeline.Send("model", TagRequest, question)))
	cunning.Outputs = []string{TagRequest}
	m, err := Model(ModelConfig{Name: "model", Description: "m", Thinkers: []string{"coder"}, Chat: func(context.Context, chat.Request, func(string)) (chat.Response, error) {
		t.Error("a tool asked the model")
		return chat.Response{}, errors.New("no")
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, peers := range [][]string{nil, {"model"}} {
		cunning.Peers = peers
		if err := OneThinker([]pipeline.Handler{cunning, m}, "model", []string{"coder"}); (err == nil) != (peers == nil) {
			t.Errorf("peers %v: %v", peers, err)
		}
		p, err := pipeline.New(pipeline.Config{
			Handlers: []pipeline.Handler{cunning, m}, Journal: w, Audit: w, Profiles: []pipeline.Profile{{Name: "researcher", Handlers: []string{"cunning", "model"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		in.Tag, in.Payload = "Cunning", []byte("x")
		_, err = p.Submit(t.Context(), in)
		if peers == nil && !errors.Is(err, pipeline.ErrRouteNotFound) || peers != nil && failure(t, err).Code != "model.not_an_agent" {
			t.Errorf("peers %v: %v", peers, err)
		}
	}
	for name, bad := range map[string]Tool{
		"its handler": {Name: "x", Handler: "model", Tag: "X", Answers: []string{"Y"}, Schema: calc.Schema},
		"its tag":     {Name: "x", Handler: "x", Tag: TagRequest, Answers: []string{"Y"}, Schema: calc.Schema},
		"its answers": {Name: "x", Handler: "x", Tag: "X", Answers: []string{TagResponse}, Schema: calc.Schema},
	} {
		cfg := config()
		cfg.Tools = []Tool{bad}
		if _, err := New(cfg); err == nil {
			t.Errorf("the model as a tool by %s was taken", name)
		}
	}
	// What a handler is given has no way to a model either.
	for _, typ := range []reflect.Type{reflect.TypeFor[pipeline.Context](), reflect.TypeFor[pipeline.Payload]()} {
		if typ.NumField() > 3 {
			t.Errorf("%s has grown", typ)
		}
	}
}

// Whatever goes wrong at the endpoint, the task ends with a structured error
// that says what, and holds no key.
func TestModelFails(t *testing.T) {
	const canary = "canary-91c2f0aa17"
	t.Setenv("THINKER_TEST_KEY", canary)
	hi := `{"choices":[{"delta":{"content":"hi"}}]}`
	for name, test := range map[string]struct {
		step      scripted.Step
		code      string
		retryable bool
	}{
		"malformed":     {scripted.Raw("application/json", "{"), "model.bad_response", false},
		"content type":  {scripted.Raw("text/plain", "{}"), "model.bad_response", false},
		"invalid UTF-8": {scripted.Raw("application/json", "{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}"), "model.bad_response", false},
		"ids twice":     {scripted.Calls(scripted.Call("1", "calc", "x"), scripted.Call("1", "calc", "y")), "model.bad_response", false},
		"too large":     {scripted.Endless("application/json", 100), "model.too_large", false},
		"slow":          {scripted.Stall(hi), "model.timeout", true},
		"cut":           {scripted.Cut(hi), "model.unavailable", true},
		"rate":          {scripted.Status(429, `{"error":{"message":"`+canary+`"}}`, "Retry-After: 9"), "model.rate_limited", true},
		"key":           {scripted.Status(401, canary), "model.unauthorized", false},
		"redirect":      {scripted.Status(302, "", "Location: http://127.0.0.1:1/"), "model.bad_response", false},
		"server":        {scripted.Status(500, canary), "model.unavailable", true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := modelConfig()
			cfg.KeyEnv = "THINKER_TEST_KEY"
			if test.code == "model.timeout" {
				cfg.Idle = 200 * time.Millisecond
			}
			w := build(t, config(), endpoint(t, cfg, test.step), replies("CalcRequest", "ok"))
			out, err := w.Submit(t.Context(), ingress(Task{Task: "x"}))
			f := failure(t, err)
			if f.Code != codeModelFailed || f.Retryable != test.retryable || !strings.Contains(string(f.Details), `"code":"`+test.code+`"`) {
				t.Errorf("%+v %s", f, f.Details)
			}
			if strings.Contains(string(out.Reply.Payload())+err.Error(), canary) {
				t.Errorf("the key is in %s", out.Reply.Payload())
			}
		})
	}
}
