package organism

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

const newsroom = `organism: {name: newsroom}
prompts: {calm: You are calm.}
listeners:
  - name: grep
    payload_class: Grep
    handler: com.example.files/grep
    description: Searches files.
  - name: clerk
    handler: com.example.clerk/handle_message
    description: Answers questions on files.
    messages: {takes: [query]}
    peers: [grep]
  - name: deaf
    handler: com.example.deaf/handle_message
    description: Says nothing.
    messages: {takes: [command]}
  - name: editor
    payload_class: AgentTask
    handler: agent
    description: Edits.
    peers: [clerk, deaf, chief]
    agent: {prompt: calm, max_tokens: 100, max_iterations: 5, model: haiku}
  - name: chief
    payload_class: ChiefTask
    handler: agent
    description: Decides.
    peers: [clerk]
    agent: {prompt: calm, max_tokens: 100, max_iterations: 5, model: haiku}
    callable: {description: Decides, parameters: [{name: what, type: string, required: true}]}
profiles:
  desk: {listeners: [editor, chief, clerk, deaf, grep]}
  hall: {listeners: [editor, grep]}
`

// clerk asks grep and passes on what that says; "lie" makes up a source.
func clerk(_ context.Context, input []byte, _ pipeline.Context) ([]byte, error) {
	var in message.ToolInput
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	m, err := message.Parse([]byte(in.Message))
	if err != nil {
		return nil, err
	}
	if m.Type == message.TypeQuery && !strings.Contains(string(m.Payload.Content), "lie") {
		return []byte(`{"use":{"tool":"grep","input":{"for":"moon"}}}`), nil
	}
	origin, evidence := m, m.Evidence
	if in.Origin != "" {
		origin, err = message.Parse([]byte(in.Origin))
	} else {
		evidence, err = message.NewEvidence(message.Chain{
			Sources: []message.Source{{ID: "the moon", Name: "the moon"}}, Confidence: 99, Citations: []message.Citation{{Text: "x", Source: "the moon"}},
			Provenance: []message.Provenance{{Entity: "x", WasGeneratedBy: "clerk", WasDerivedFrom: "the moon"}},
		})
	}
	if err != nil {
		return nil, err
	}
	answer, err := message.Reply(origin, message.Response{Answer: "there are two"}, evidence, time.Now())
	if err != nil {
		return nil, err
	}
	doc, err := message.Encode(answer)
	if err != nil {
		return nil, err
	}
	return json.Marshal(message.ToolOutput{Answer: string(doc)})
}

func buildNewsroom(t *testing.T, script ...chat.Message) *world {
	t.Helper()
	o, err := parse(t, newsroom)
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
			tool := Tool{Request: json.RawMessage(objectSchema), Response: json.RawMessage(objectSchema), CheckRequest: any, CheckResponse: any}
			tool.Do = func(context.Context, []byte, pipeline.Context) ([]byte, error) { return []byte(`{}`), nil }
			if strings.HasPrefix(ref, "com.example.clerk/") {
				tool.Do = clerk
			}
			return tool, nil
		},
		Compile: compile, Journal: w.journal, Audit: w.journal, Logger: slog.New(slog.DiscardHandler),
		Holds: func(_ context.Context, session, ref string) (bool, error) {
			for _, e := range w.journal.entries {
				if e.Direction == pipeline.Inbound && strings.HasSuffix(e.PayloadTag, resultSuffix) && strings.HasPrefix(string(e.Thread), session) &&
					(e.Handler == ref || e.PayloadHash.String() == ref) {
					return true, nil
				}
			}
			return false, nil
		},
		Chat: func(_ context.Context, r chat.Request, _ func(string)) (chat.Response, error) {
			w.asked = append(w.asked, r)
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

// TestThinkerAsksAnAgent: to one that thinks, an agent that exchanges messages is
// a tool; between the two there are messages, with evidence that is checked.
func TestThinkerAsksAnAgent(t *testing.T) {
	requirements.Covers(t, "M-9")
	w := buildNewsroom(t, use("clerk", `{"question":"how many moons?"}`), say("two"))
	a, err := w.do(t, "desk", "AgentTask", "count moons")
	if err != nil || a.Text != "two" {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, want := range []string{`"from":"clerk"`, `"type":"response"`, "there are two", `"wasDerivedFrom":"grep"`, `"confidence":100`} {
		if !strings.Contains(w.read(), want) {
			t.Errorf("the model read %s, without %s", w.read(), want)
		}
	}
	var said []string
	for _, e := range w.journal.entries {
		if message.IsMessage(e.PayloadTag) && e.Direction == pipeline.Inbound {
			said = append(said, e.Handler+" "+e.PayloadTag)
		}
	}
	if got := strings.Join(said, ", "); got != "editor.ask ye.query, clerk ye.response" {
		t.Errorf("messages: %s", got)
	}
}

func TestThinkerIsToldWhatWentWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		profile, tool, args, want string
	}{
		"made up":             {"desk", "clerk", `{"question":"lie"}`, "evidence.fabrication"},
		"silent":              {"desk", "deaf", `{"question":"anybody?"}`, "tool.data_unavailable"},
		"not in the profile":  {"hall", "clerk", `{"question":"x"}`, "protocol.unauthorized"},
		"no question":         {"desk", "clerk", `{"question":""}`, "tool.bad_arguments"},
		"looks like a secret": {"desk", "clerk", `{"question":"password: c4n4ry-8f3a91d7e2b6"}`, "policy.violation"},
	} {
		t.Run(name, func(t *testing.T) {
			w := buildNewsroom(t, use(tt.tool, tt.args), say("I see"))
			if a, err := w.do(t, tt.profile, "AgentTask", "x"); err != nil || a.Text != "I see" || !strings.Contains(w.read(), tt.want) {
				t.Errorf("%+v, %v; the model read %s", a, err, w.read())
			}
		})
	}
}

// TestCalleeAsksAnAgent: in a thread of its own, a callee reaches the agents it
// asks, and what those need.
func TestCalleeAsksAnAgent(t *testing.T) {
	w := buildNewsroom(t, use("chief", `{"what":"moons"}`), use("clerk", `{"question":"how many moons?"}`), say("two it is"), say("decided"))
	if a, err := w.do(t, "desk", "AgentTask", "x"); err != nil || a.Text != "decided" {
		t.Fatalf("%+v, %v", a, err)
	}
	if last := w.asked[2].Messages; !strings.Contains(last[len(last)-1].Content, "there are two") {
		t.Errorf("the callee read %+v", last[len(last)-1])
	}
}

// TestAgentsAreFound: listeners that are asked in words are among what semantic
// routing chooses from.
func TestAgentsAreFound(t *testing.T) {
	got := map[string]string{}
	for _, c := range buildNewsroom(t).Capabilities {
		if c.InWords {
			got[c.Name] = c.Tag
		}
	}
	if got["clerk"] != "ye.query" || got["deaf"] != "ye.command" || got["editor"] != "AgentTask" || len(got) != 3 {
		t.Errorf("found %v", got)
	}
	if text := strings.Join(viewed(t, "desk"), "\n"); !strings.Contains(text, "editor.ask.clerk editor.ask [clerk]") {
		t.Errorf("shown:\n%s", text)
	}
}

func viewed(t *testing.T, profile string) (rows []string) {
	t.Helper()
	o, err := parse(t, newsroom)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range o.Views() {
		for _, r := range v.Routes {
			if v.Profile == profile {
				rows = append(rows, r.Tag+" "+r.Handler+" ["+strings.Join(r.Peers, " ")+"]")
			}
		}
	}
	return rows
}
