package organism

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// journal keeps what passed and what did not.
type journal struct {
	mu      sync.Mutex
	entries []pipeline.Entry
	rejects []pipeline.Reject
}

func (j *journal) Append(_ context.Context, entries ...pipeline.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entries...)
	return nil
}

func (j *journal) Reject(_ context.Context, r pipeline.Reject) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rejects = append(j.rejects, r)
}

// world is an organism whose model says what script says, one answer a question.
type world struct {
	*Built
	journal *journal
	asked   []chat.Request
	called  []string
}

const objectSchema = `{"type":"object"}`

func compile(schema json.RawMessage) (pipeline.Validate, error) {
	s, err := toolschema.Compile(schema)
	if err != nil {
		return nil, err
	}
	return func(doc []byte) error { return s.Validate(doc) }, nil
}

func build(t *testing.T, src string, script ...chat.Message) *world {
	t.Helper()
	o, err := parse(t, src)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{journal: &journal{}}
	any, err := compile(json.RawMessage(objectSchema))
	if err != nil {
		t.Fatal(err)
	}
	w.Built, err = Build(o, Parts{
		Tool: func(ref string) (Tool, error) {
			return Tool{
				Request: json.RawMessage(objectSchema), Response: json.RawMessage(objectSchema), CheckRequest: any, CheckResponse: any,
				Do: func(_ context.Context, input []byte, _ pipeline.Context) ([]byte, error) {
					w.called = append(w.called, ref+" "+string(input))
					return []byte(`{"did":"` + ref + `"}`), nil
				},
			}, nil
		},
		Compile: compile, Journal: w.journal, Audit: w.journal,
		Chat: func(_ context.Context, r chat.Request, _ func(string)) (chat.Response, error) {
			w.asked = append(w.asked, r)
			if len(script) == 0 {
				return chat.Response{}, errors.New("the script is over")
			}
			next := script[0]
			script = script[1:]
			return chat.Response{Model: r.Model, Message: next, FinishReason: chat.FinishStop}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func say(text string) chat.Message { return chat.Message{Role: chat.RoleAssistant, Content: text} }

func use(tool, args string) chat.Message {
	m := chat.Message{Role: chat.RoleAssistant}
	m.ToolCalls = []chat.ToolCall{{ID: "1", Type: "function"}}
	m.ToolCalls[0].Function.Name, m.ToolCalls[0].Function.Arguments = tool, args
	return m
}

func (w *world) do(t *testing.T, profile, tag, task string) (thinker.Answer, error) {
	t.Helper()
	doc, err := json.Marshal(thinker.Task{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Pipeline.Submit(t.Context(), pipeline.Ingress{
		Namespace: Namespace, Tag: tag, Payload: doc, Thread: "root", Profile: profile, Sender: "person",
	})
	var a thinker.Answer
	if err == nil {
		err = json.Unmarshal(out.Reply.Payload(), &a)
	}
	return a, err
}

// read is what the model was last told.
func (w *world) read() string {
	last := w.asked[len(w.asked)-1].Messages
	return last[len(last)-1].Content
}

// TestAgentUsesItsTools: a listener of the configuration thinks and calls what
// its peers are, in one flow, all of it in the journal.
func TestAgentUsesItsTools(t *testing.T) {
	requirements.Covers(t, "AP-1.0.1", "AP-11.2.2", "AP-7.0.1")
	w := build(t, example, use("file-read", `{"path": "a.go"}`), say("it is empty"))
	a, err := w.do(t, "coder", "AgentTask", "what is in a.go?")
	if err != nil || a.Text != "it is empty" || a.ToolCalls != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if !slices.Equal(w.called, []string{`com.example.files/read {"path": "a.go"}`}) || w.read() != `{"did":"com.example.files/read"}` {
		t.Errorf("called %q, read %s", w.called, w.read())
	}
	system := w.asked[0].Messages[0].Content
	if !strings.HasPrefix(system, "You stop when the task is done.\nWrite Go.") || w.asked[0].Model != "opus" || len(w.asked[0].Tools) != 3 {
		t.Errorf("asked %s with %d tools: %s", w.asked[0].Model, len(w.asked[0].Tools), system)
	}
	for _, offer := range w.asked[0].Tools { // as the tool gave it (M-6)
		if f := offer.Function; f.Name == "file-read" && string(f.Parameters) != objectSchema {
			t.Errorf("%s is offered with %s", f.Name, f.Parameters)
		}
	}
	var tags []string
	for _, e := range w.journal.entries {
		tags = append(tags, string(e.Direction)+" "+e.PayloadTag)
	}
	for _, want := range []string{"Outbound AgentTask", "Outbound LLMRequest", "Outbound FileReadRequest", "Inbound FileReadRequest.result", "Inbound LLMResponse", "Inbound AgentResponse"} {
		if !slices.Contains(tags, want) {
			t.Errorf("the journal has no %s: %v", want, tags)
		}
	}
}

// TestOrganismAsATool: an agent calls another organism's listener by a standard
// tool call; it runs in a thread of its own and its answer comes back.
func TestOrganismAsATool(t *testing.T) {
	requirements.Covers(t, "AP-15.0.1", "AP-15.2.1", "AP-15.2.2", "AP-15.2.3")
	w := build(t, example, use("research-agent", `{"query":"moons"}`), use("grep", `{"for":"moon"}`), say("there are two"), say("two, they say"))
	a, err := w.do(t, "coder", "AgentTask", "how many moons?")
	if err != nil || a.Text != "two, they say" {
		t.Fatalf("%+v, %v", a, err)
	}
	if task := w.asked[1].Messages[1].Content; w.asked[1].Model != "haiku" || !strings.Contains(task, "Deep research on a topic") || !strings.Contains(task, "query: moons") {
		t.Errorf("the callee was told %q", task)
	}
	if len(w.asked[1].Messages) != 2 {
		t.Error("the callee shares the caller's conversation")
	}
	if !strings.Contains(w.read(), "there are two") {
		t.Errorf("the caller read %s", w.read())
	}
	threads := map[pipeline.ThreadID]bool{}
	for _, e := range w.journal.entries {
		threads[e.Thread] = true
	}
	if !threads["root"] || !threads["root.call-1[research-agent]"] || len(threads) != 2 {
		t.Errorf("threads %v", threads)
	}
	// Its parameters are checked before it is asked.
	w = build(t, example, use("research-agent", `{"topic":1}`), say("sorry"))
	if _, err := w.do(t, "coder", "AgentTask", "x"); err != nil || !strings.Contains(w.read(), "tool.bad_arguments") {
		t.Errorf("%v, read %s", err, w.read())
	}
}

// TestCalleeReachesNoMore: what the caller's thread lacks the callee lacks too,
// unless the configuration grants it a profile of its own.
func TestCalleeReachesNoMore(t *testing.T) {
	requirements.Covers(t, "AP-15.3.1", "AP-15.3.2", "K-7")
	call := []chat.Message{use("research-agent", `{"query":"x"}`), use("grep", `{}`), say("inner"), say("outer")}
	// The caller's thread is kept from grep, although the profile has it.
	w := build(t, example, call...)
	parent, err := w.Pipeline.Open("root", "coder")
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, r := range parent.Table().Routes() {
		if r.Tag != "GrepRequest" {
			tags = append(tags, r.Tag)
		}
	}
	child, err := parent.Spawn("kept", pipeline.Keep(tags...))
	if err != nil {
		t.Fatal(err)
	}
	task, _ := json.Marshal(thinker.Task{Task: "x"})
	if _, err := child.Submit(t.Context(), pipeline.Ingress{Namespace: Namespace, Tag: "AgentTask", Payload: task, Sender: "person"}); err != nil {
		t.Fatal(err)
	}
	if len(w.called) != 0 || !strings.Contains(fmt.Sprint(w.asked[2].Messages), "route.not_found") {
		t.Errorf("called %q; the callee read %+v", w.called, w.asked[2].Messages)
	}
	// And what the caller has but the callee does not need, it lacks as well.
	w = build(t, strings.Replace(example, "    peers: [file-read, grep]\n", "    peers: [file-read]\n", 1),
		use("research-agent", `{"query":"x"}`), use("grep", `{}`), say("inner"), say("outer"))
	if _, err := w.do(t, "coder", "AgentTask", "x"); err != nil || len(w.called) != 0 {
		t.Errorf("%v, called %q", err, w.called)
	}
	// A profile of its own is granted by the configuration, and by nothing else.
	granted := strings.Replace(example, "      requires: [file-read, grep]\n", "      profile: researcher\n", 1) + "  researcher:\n    listeners: [research-agent, grep]\n    network: [443]\n"
	granted = strings.Replace(granted, "listeners: [coder, file-read, grep, research-agent]", "listeners: [coder, file-read, research-agent]", 1)
	w = build(t, granted, call...)
	if a, err := w.do(t, "coder", "AgentTask", "x"); err != nil || a.Text != "outer" || !slices.Equal(w.called, []string{"com.example.files/grep {}"}) {
		t.Errorf("granted: %+v, %v, called %q", a, err, w.called)
	}
}

// TestCallsAreBounded: a listener that may call itself, and does so whatever it
// is told, comes to an end.
func TestCallsAreBounded(t *testing.T) {
	endless := strings.Replace(example, "Researches.\n    peers: [file-read, grep]\n", "Researches.\n    peers: [research-agent]\n", 1)
	var script []chat.Message
	for range maxCalls + 1 {
		script = append(script, use("research-agent", `{"query":"x"}`))
	}
	for range maxCalls + 1 {
		script = append(script, say("done"))
	}
	w := build(t, endless, script...)
	if a, err := w.do(t, "coder", "AgentTask", "x"); err != nil || a.Text != "done" {
		t.Fatalf("%+v, %v", a, err)
	}
	if told := w.asked[maxCalls+1].Messages; !strings.Contains(told[len(told)-1].Content, codeTooDeep) {
		t.Errorf("the last one was told %+v", told[len(told)-1])
	}
	if len(w.asked) != 2*(maxCalls+1) {
		t.Errorf("the model was asked %d times", len(w.asked))
	}
}

// TestReadAgain: a configuration that was read again is for new threads. One
// that runs keeps its table.
func TestReadAgain(t *testing.T) {
	requirements.Covers(t, "AP-12.4.1", "AP-12.4.2", "AP-4.1.1", "APX-10")
	old := build(t, example)
	running, err := old.Pipeline.Open("root", "reader")
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(running.Table().Routes())
	next := build(t, strings.Replace(example, "listeners: [file-read]\n", "listeners: [grep]\n    network: [443]\n", 1))
	fresh, err := next.Pipeline.Open("root", "reader")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(running.Table().Routes()) != before || fmt.Sprint(fresh.Table().Routes()) == before {
		t.Errorf("running %v, new %v", running.Table().Routes(), fresh.Table().Routes())
	}
	in := pipeline.Ingress{Namespace: Namespace, Tag: "FileReadRequest", Payload: []byte(`{}`), Sender: "person"}
	if _, err := running.Submit(t.Context(), in); err != nil {
		t.Error(err)
	}
	if _, err := fresh.Submit(t.Context(), in); !errors.Is(err, pipeline.ErrRouteNotFound) {
		t.Error(err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"agent as a peer":  {"    callable:\n      description: Deep research on a topic\n      parameters:\n        - name: query\n          type: string\n          required: true\n      requires: [file-read, grep]\n", "", "is an agent that is not callable"},
		"unknown variable": {"You stop when the task is done.", "You are {nobody}.", "nobody"},
		"tag":              {"payload_class: GrepRequest", "payload_class: 'Grep*'", "wildcards"},
	} {
		o, err := parse(t, strings.Replace(example, tt.from, tt.to, 1))
		if err != nil {
			t.Fatal(err)
		}
		ok := func([]byte) error { return nil }
		_, err = Build(o, Parts{
			Tool: func(string) (Tool, error) {
				return Tool{Request: json.RawMessage(objectSchema), CheckRequest: ok, CheckResponse: ok}, nil
			},
			Compile: compile, Journal: &journal{}, Audit: &journal{},
			Chat: func(context.Context, chat.Request, func(string)) (chat.Response, error) { return chat.Response{}, nil },
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := parse(t, example)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(o, Parts{Tool: func(string) (Tool, error) { return Tool{}, errors.New("no such tool") }, Compile: compile}); err == nil || !strings.Contains(err.Error(), "listener file-read: no such tool") {
		t.Errorf("no tool: %v", err)
	}
}
