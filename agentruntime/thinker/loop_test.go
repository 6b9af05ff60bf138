package thinker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// The whole loop, by both providers: what the model says, what the tools get,
// what the model then reads.
func TestLoop(t *testing.T) {
	requirements.Covers(t, "AP-11.0.1", "AP-11.1.1", "AP-11.1.2", "AP-11.1.3", "AP-11.1.4", "AP-11.4.1", "AP-A.2", "AP-9.2.4")
	odd := "{ \"expression\" : \"1+1\",\n\"b\":1.0, \"b\":1e999, \"<&>\":\"\\u00e9é\" } "
	c := scripted.Call
	for name, test := range map[string]struct {
		turns      []chat.Message
		calculator pipeline.HandleFunc
		called     []string // what the calculator got
		answers    []string // what the model read at last
	}{
		"text only": {turns: []chat.Message{say("4")}},
		"one call, byte for byte": {
			[]chat.Message{call(c("1", "calc", odd)), say("4")},
			replies("CalcRequest", " {\"value\": 4 }\n"),
			[]string{odd},
			[]string{"1  {\"value\": 4 }\n"},
		},
		"arguments that are no JSON": {
			[]chat.Message{call(c("1", "calc", "please: 2+2")), say("4")},
			replies("CalcRequest", "4"),
			[]string{"please: 2+2"},
			[]string{"1 4"},
		},
		"several, in order": {
			[]chat.Message{call(c("1", "calc", "a"), c("2", "calc", "b")), {Content: "hm", ToolCalls: []chat.ToolCall{c("3", "calc", "c")}}, say("4")},
			replies("CalcRequest", "ok"),
			[]string{"a", "b", "c"},
			[]string{"1 ok", "2 ok", "3 ok"},
		},
		"a tool's error": {
			[]chat.Message{call(c("1", "calc", "1/0")), say("4")},
			always(pipeline.Fail(pipeline.Failure{Code: "calc.zero", Message: "division by zero", Details: json.RawMessage(`{"at":1}`)})),
			[]string{"1/0"},
			[]string{`1 {"error":{"code":"calc.zero","message":"division by zero","retryable":false,"details":{"at":1}}}`},
		},
		"a silent tool": {
			[]chat.Message{call(c("1", "calc", "x")), say("4")},
			always(pipeline.Silence()),
			[]string{"x"},
			[]string{`1 {"result":"ack","success":true}`},
		},
		"no such tool, then one": {
			[]chat.Message{call(c("1", "eraser", "{}"), c("2", "calc", "x"), c("3", "calculator", "{}")), say("4")},
			replies("CalcRequest", "ok"),
			[]string{"x"},
			[]string{`1 {"error":{"code":"tool.not_found","message":"no such tool","retryable":false}}`, "2 ok", `3 {"error":{"code":"tool.not_found","message":"no such tool","retryable":false}}`},
		},
		"an answer that is no text": {
			[]chat.Message{call(c("1", "calc", "x")), say("4")},
			replies("CalcRequest", "\xff\xfe"),
			[]string{"x"},
			[]string{`1 {"error":{"code":"tool.answer_no_text","message":"the answer is no UTF-8","retryable":false}}`},
		},
		"an answer that is too long": {
			[]chat.Message{call(c("1", "calc", "x")), say("4")},
			replies("CalcRequest", strings.Repeat("x", maxToolAnswer+1)),
			[]string{"x"},
			[]string{`1 {"error":{"code":"tool.answer_too_long","message":"the answer has 262145 bytes, more than 262144","retryable":false}}`},
		},
	} {
		for provider, build4 := range providers {
			t.Run(name+"/"+provider, func(t *testing.T) {
				w := build(t, config(), build4(t, test.turns...), test.calculator)
				var streamed string
				in := ingress(Task{Task: "2+2?", Context: "the user likes sums"})
				in.Stream = func(channel, text string) { streamed += channel + " " + text + "\n" }
				out, err := w.Submit(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				var got Answer
				if err := json.Unmarshal(out.Reply.Payload(), &got); err != nil || out.Reply.Tag() != TagAnswer {
					t.Fatalf("%s %s", out.Reply.Tag(), out.Reply.Payload())
				}
				n := int64(len(test.turns))
				want := Answer{"4", chat.FinishStop, Provenance{
					Model: "scripted-1", Sampling: chat.Sampling{MaxTokens: 100}, Iterations: int(n), ToolCalls: len(test.called),
					Usage: &chat.Usage{PromptTokens: 7 * n, CompletionTokens: 3 * n},
				}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				var called []string
				for _, payload := range test.called {
					called = append(called, "calculator "+payload)
				}
				if !slices.Equal(w.called, called) || !slices.Equal(w.toolAnswers(), test.answers) {
					t.Errorf("tools got %q, the model %q", w.called, w.toolAnswers())
				}
				if !strings.Contains(streamed, "stdout 4\n") {
					t.Errorf("streamed %q", streamed)
				}
				w.checkQuestions(t, test.turns)
			})
		}
	}
}

// checkQuestions holds every question against the conversation it should have
// grown to: system, context and task, then turn by turn.
func (w *world) checkQuestions(t *testing.T, turns []chat.Message) {
	t.Helper()
	if len(w.asked) != len(turns) {
		t.Fatalf("%d questions for %d turns", len(w.asked), len(turns))
	}
	for i, r := range w.asked {
		if r.Model != "opus" || r.MaxTokens != 100 || len(r.Tools) != 1 || r.Tools[0].Function.Name != "calc" {
			t.Errorf("question %d: %+v", i, r)
		}
		m := r.Messages
		if m[0].Role != chat.RoleSystem || m[0].Content != "You are coder.\nTools:\n- calc: Computes.\n  arguments: {\"type\":\"object\",\"required\":[\"expression\"]}" {
			t.Errorf("system prompt %q", m[0].Content)
		}
		if m[1].Role != chat.RoleUser || m[1].Content != "Context:\nthe user likes sums\n\nTask:\n2+2?" {
			t.Errorf("task %q", m[1].Content)
		}
		next := 2
		for _, turn := range turns[:i] {
			turn.Role = chat.RoleAssistant
			if diff := cmp.Diff(turn, m[next]); diff != "" {
				t.Error(diff)
			}
			next++
			for _, c := range turn.ToolCalls {
				if m[next].ToolCallID != c.ID {
					t.Errorf("message %d answers %s, not %s", next, m[next].ToolCallID, c.ID)
				}
				next++
			}
		}
		if next != len(m) {
			t.Errorf("question %d has %d messages, not %d", i, len(m), next)
		}
	}
}

// Arguments that the pipeline would refuse go back to the model, as it could
// not hear of them otherwise; what passes is not touched.
func TestArgumentsChecked(t *testing.T) {
	cfg := config()
	cfg.Tools = []Tool{calc}
	cfg.Tools[0].Check = func(b []byte) error {
		if string(b) != " good" {
			return errors.New("expression is missing")
		}
		return nil
	}
	w := build(t, cfg, mock(t, call(scripted.Call("1", "calc", "bad"), scripted.Call("2", "calc", " good")), say("done")), replies("CalcRequest", "ok"))
	if _, err := w.do(t.Context(), Task{Task: "x"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`1 {"error":{"code":"tool.bad_arguments","message":"expression is missing","retryable":false}}`, "2 ok"}; !slices.Equal(w.toolAnswers(), want) || !slices.Equal(w.called, []string{"calculator  good"}) {
		t.Errorf("%q %q", w.toolAnswers(), w.called)
	}
}

// An endless loop of tool calls ends at the configured number of questions,
// whatever that is.
func TestMaxIterations(t *testing.T) {
	requirements.Covers(t, "AP-11.5.1", "AP-11.5.2", "AP-B.7")
	for provider, turns := range providers {
		for _, limit := range []int{1, 2, 7, 40} {
			t.Run(fmt.Sprint(provider, limit), func(t *testing.T) {
				cfg := config()
				cfg.Agent.MaxIterations = limit
				w := build(t, cfg, turns(t, call(scripted.Call("1", "calc", "again"))), replies("CalcRequest", "more"))
				_, err := w.do(t.Context(), Task{Task: "x"})
				f := failure(t, err)
				var p Provenance
				if err := json.Unmarshal(f.Details, &p); err != nil || f.Code != codeMaxIterations || p.Iterations != limit || p.ToolCalls != limit-1 {
					t.Errorf("%+v %s", f, f.Details)
				}
				if len(w.asked) != limit || len(w.called) != limit-1 {
					t.Errorf("%d questions, %d calls", len(w.asked), len(w.called))
				}
			})
		}
	}
	// The same with text at the last question is no failure.
	cfg := config()
	cfg.Agent.MaxIterations = 2
	w := build(t, cfg, mock(t, call(scripted.Call("1", "calc", "x")), say("done")), replies("CalcRequest", "ok"))
	if a, err := w.do(t.Context(), Task{Task: "x"}); err != nil || a.Iterations != 2 {
		t.Errorf("%+v %v", a, err)
	}
}

func TestHistoryBound(t *testing.T) {
	cfg := config()
	cfg.MaxHistory = 10_000
	w := build(t, cfg, mock(t, call(scripted.Call("1", "calc", "again"))), replies("CalcRequest", strings.Repeat("x", 4000)))
	_, err := w.do(t.Context(), Task{Task: "x"})
	if f := failure(t, err); f.Code != codeTooLarge || len(w.asked) != 3 {
		t.Errorf("%+v after %d questions", f, len(w.asked))
	}
}

// What is not counted once is not counted at all: a sum of some is no sum.
func TestUsageNotCounted(t *testing.T) {
	w := build(t, config(), endpoint(t, modelConfig(), scripted.Calls(scripted.Call("1", "calc", "x")),
		scripted.Raw("application/json", `{"choices":[{"finish_reason":"length","message":{"content":"and th"}}]}`)), replies("CalcRequest", "ok"))
	a, err := w.do(t.Context(), Task{Task: "x"})
	if err != nil || a.Usage != nil || a.Model != "opus" || a.FinishReason != chat.FinishLength {
		t.Errorf("%+v %v", a, err)
	}
}
