package thinker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// One agent serves many threads at once, and none sees another's conversation.
func TestManyThreads(t *testing.T) {
	parrot := func(_ context.Context, r chat.Request, _ func(string)) (chat.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		m := chat.Message{Role: chat.RoleAssistant, Content: last.Content}
		if last.Role == chat.RoleUser {
			m = call(scripted.Call("1", "calc", last.Content))
			m.Role = chat.RoleAssistant
		}
		return chat.Response{Message: m, FinishReason: chat.FinishStop}, nil
	}
	w := build(t, config(), parrot, func(_ context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
		return pipeline.Reply("CalcRequest.result", append([]byte("answer to "), p.Bytes...)), nil
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			in := ingress(Task{Task: fmt.Sprint("question ", i)})
			in.Thread = pipeline.ThreadID(fmt.Sprint("job-", i))
			out, err := w.Submit(t.Context(), in)
			if want := fmt.Sprintf(`{"text":"answer to question %d"`, i); err != nil || string(out.Reply.Payload()[:len(want)]) != want {
				t.Errorf("%s %v", out.Reply.Payload(), err)
			}
		})
	}
	wg.Wait()
	if len(w.thinker.sessions) != 0 {
		t.Errorf("%d conversations are left", len(w.thinker.sessions))
	}
}

// A flow that breaks off leaves a conversation behind. The next task of the
// thread begins anew; without one it is forgotten when its time is over.
func TestBrokenFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Timeout = time.Minute
		first := true
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		w := build(t, cfg, mock(t, call(scripted.Call("1", "calc", "x")), say("first"), say("second"), say("third")), func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
			if first {
				first = false
				giveUp()
			}
			return pipeline.Reply("CalcRequest.result", []byte("ok")), nil
		})
		if _, err := w.do(ctx, Task{Task: "a"}); !errors.Is(err, context.Canceled) || len(w.thinker.sessions) != 1 {
			t.Fatalf("%v, %d conversations", err, len(w.thinker.sessions))
		}
		a, err := w.do(t.Context(), Task{Task: "b"})
		if err != nil || a.Text != "first" || a.Iterations != 1 || len(w.asked[1].Messages) != 2 || len(w.thinker.sessions) != 0 {
			t.Errorf("%+v %v", a, err)
		}

		first = true
		w.thinker.put("elsewhere", &session{deadline: time.Now().Add(time.Minute)})
		time.Sleep(61 * time.Second) // of the bubble's clock
		if _, err := w.do(t.Context(), Task{Task: "c"}); err != nil || len(w.thinker.sessions) != 0 {
			t.Errorf("%v, %d conversations", err, len(w.thinker.sessions))
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Timeout = time.Minute
		w := build(t, cfg, mock(t, call(scripted.Call("1", "calc", "x"))), func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
			time.Sleep(25 * time.Second)
			return pipeline.Reply("CalcRequest.result", []byte("ok")), nil
		})
		_, err := w.do(t.Context(), Task{Task: "a"})
		if f := failure(t, err); f.Code != codeTimeout || len(w.asked) != 3 {
			t.Errorf("%+v after %d questions", f, len(w.asked))
		}
	})
}

func TestTooManyTasks(t *testing.T) {
	w := build(t, config(), mock(t, say("done")), nil)
	for i := range maxSessions {
		w.thinker.put(pipeline.ThreadID(fmt.Sprint("t", i)), &session{deadline: time.Now().Add(time.Hour)})
	}
	_, err := w.do(t.Context(), Task{Task: "a"})
	if f := failure(t, err); f.Code != codeBusy || !f.Retryable {
		t.Errorf("%+v", f)
	}
}

// Messages that nobody waits for change nothing for the task that is under
// way, and fail where there is none.
func TestStrayMessages(t *testing.T) {
	w := build(t, config(), mock(t, say("done")), nil)
	for _, tag := range []string{TagResponse, "CalcRequest.result", pipeline.TagAck} {
		in := ingress(Task{})
		in.Tag, in.Payload = tag, []byte(`{"model":"m","message":{"role":"assistant","content":"done"},"finish_reason":"stop","sampling":{},"attempts":1}`)
		if _, err := w.Submit(t.Context(), in); failure(t, err).Code != codeUnexpected {
			t.Errorf("%s: %v", tag, err)
		}
	}
	at := func(sender string) pipeline.Context {
		return pipeline.Context{Thread: "root", Sender: sender, Self: "coder"}
	}
	waitsForModel := func() { w.thinker.put("root", &session{model: "model", deadline: time.Now().Add(time.Hour)}) }
	waitsForTool := func() {
		w.thinker.put("root", &session{model: "model", deadline: time.Now().Add(time.Hour), calling: &calc, calls: []chat.ToolCall{scripted.Call("1", "calc", "")}})
	}
	for name, test := range map[string]struct {
		prepare     func()
		tag, sender string
	}{
		"a tool as the model":     {waitsForModel, TagResponse, "calculator"},
		"a tool's second answer":  {waitsForModel, "CalcRequest.result", "calculator"},
		"a tool's second error":   {waitsForModel, pipeline.TagError, "calculator"},
		"a second silence":        {waitsForModel, pipeline.TagAck, "pipeline"},
		"the model in between":    {waitsForTool, TagResponse, "model"},
		"another tool":            {waitsForTool, "CalcRequest.result", "eraser"},
		"the tool by another tag": {waitsForTool, "EraseRequest.result", "calculator"},
	} {
		test.prepare()
		r, err := w.thinker.handle(t.Context(), pipeline.Payload{Tag: test.tag, Bytes: []byte("{}")}, at(test.sender))
		if err != nil || fmt.Sprint(r) != fmt.Sprint(pipeline.Silence()) || len(w.thinker.sessions) != 1 {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	// The tool that is at work gives its caller a task.
	waitsForTool()
	r, err := w.thinker.handle(t.Context(), pipeline.Payload{Tag: tagTask, Bytes: []byte(`{"task":"x"}`)}, at("calculator"))
	if want := pipeline.Fail(pipeline.Failure{Code: codeBusy, Message: "the agent waits for the answer of calculator"}); err != nil || fmt.Sprint(r) != fmt.Sprint(want) || len(w.thinker.sessions) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestBadTask(t *testing.T) {
	w := build(t, config(), mock(t, say("done")), nil)
	for _, bad := range []string{"", "{}", `{"task":""}`, `{"task":"x","profile":"admin"}`, `{"task":"a","task":"b"}`, "{\"task\":\"\xff\"}", `"x"`} {
		in := ingress(Task{})
		in.Payload = []byte(bad)
		var invalid *pipeline.ValidationError
		if _, err := w.Submit(t.Context(), in); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", bad, err)
		}
		r, err := w.thinker.handle(t.Context(), pipeline.Payload{Tag: tagTask, Bytes: []byte(bad)}, pipeline.Context{Thread: "root"})
		if err != nil || fmt.Sprint(r)[:2] != fmt.Sprint(pipeline.Fail(pipeline.Failure{}))[:2] {
			t.Errorf("%s: %+v %v", bad, r, err)
		}
	}
	if len(w.asked) != 0 {
		t.Error("the model was asked")
	}
}

// Bad answers of the model's handler end the task; it may be anybody's process.
func TestBadModelAnswer(t *testing.T) {
	for name, r := range map[string]chat.Response{
		"nothing":     {},
		"as the user": {FinishReason: "stop", Message: chat.Message{Role: chat.RoleUser, Content: "x"}},
		"ids twice":   {FinishReason: "stop", Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: slices.Repeat([]chat.ToolCall{scripted.Call("1", "calc", "")}, 2)}},
	} {
		w := build(t, config(), func(context.Context, chat.Request, func(string)) (chat.Response, error) { return r, nil }, nil)
		if _, err := w.do(t.Context(), Task{Task: "x"}); failure(t, err).Code != codeModelFailed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A tool that has others work for it and answers once for each of them: the
// first answer counts, and the task goes on.
func TestToolAnswersTwice(t *testing.T) {
	for name, late := range map[string]pipeline.Response{
		"reply": pipeline.Reply("CalcRequest.result", []byte("late")), "error": pipeline.Fail(pipeline.Failure{Code: "calc.late"}), "silence": pipeline.Silence(),
	} {
		w := &world{}
		var err error
		if w.thinker, err = New(config()); err != nil {
			t.Fatal(err)
		}
		m, err := Model(ModelConfig{Name: "model", Description: "m", Thinkers: []string{"coder"}, Chat: func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error) {
			w.asked = append(w.asked, r)
			return mock(t, []chat.Message{call(scripted.Call("1", "calc", "x")), say("done")}[len(w.asked)-1])(ctx, r, onText)
		}})
		if err != nil {
			t.Fatal(err)
		}
		answers := 0
		calculator := w.tool("calculator", "CalcRequest", func(_ context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
			if p.Tag == "CalcRequest" {
				return pipeline.Broadcast(pipeline.Message{To: "worker", Tag: "Work"}, pipeline.Message{To: "worker", Tag: "Work"}), nil
			}
			if answers++; answers == 1 {
				return pipeline.Reply("CalcRequest.result", []byte("ok")), nil
			}
			return late, nil
		})
		calculator.Tags, calculator.Peers = append(calculator.Tags, "Work.result"), []string{"worker"}
		calculator.Outputs = append(calculator.Outputs, "Work")
		w.Pipeline, err = pipeline.New(pipeline.Config{
			Handlers: []pipeline.Handler{w.thinker.Handler(), m, calculator, w.tool("worker", "Work", replies("Work", "worked"))}, Journal: w, Audit: w,
			Profiles: []pipeline.Profile{{Name: "researcher", Handlers: []string{"coder", "model", "calculator", "worker"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := w.do(t.Context(), Task{Task: "x"})
		if err != nil || a.Text != "done" || !slices.Equal(w.toolAnswers(), []string{"1 ok"}) || answers != 2 {
			t.Errorf("%s: %+v %v, %q after %d answers", name, a, err, w.toolAnswers(), answers)
		}
	}
}

// TestDefaultTime: an agent has five minutes for a task where nothing else is said.
func TestDefaultTime(t *testing.T) {
	requirements.Covers(t, "APX-7")
	for took, want := range map[time.Duration]string{299 * time.Second: "", 301 * time.Second: codeTimeout} {
		synctest.Test(t, func(t *testing.T) {
			w := build(t, config(), mock(t, call(scripted.Call("1", "calc", "x")), say("done")), func(context.Context, pipeline.Payload, pipeline.Context) (pipeline.Response, error) {
				time.Sleep(took) // of the bubble's clock
				return pipeline.Reply("CalcRequest.result", []byte("ok")), nil
			})
			_, err := w.do(t.Context(), Task{Task: "a"})
			if want == "" && err != nil || want != "" && failure(t, err).Code != want {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}
