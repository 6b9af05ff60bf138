package message

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestTwoHops(t *testing.T) {
	requirements.Covers(t, "YE-O.1", "YE-O.2", "YE-O.3", "YE-T.6", "M-10")
	w := newWorld(t)
	q := parse(t, example(t, "query"))
	m := w.ask(t, example(t, "query"))
	if m == nil || m.Type != TypeResponse {
		t.Fatalf("answer is %+v\n%s", m, w.logged)
	}
	if m.ReplyTo != q.ID || m.From != analyst || m.To != brain || m.Context != q.Context {
		t.Errorf("answer is %+v", m)
	}
	if !bytes.Equal(m.Evidence.Bytes(), w.gave.Bytes()) || len(w.gave.chain.Sources) == 0 {
		t.Errorf("evidence became\n%s, was\n%s", m.Evidence.Bytes(), w.gave.Bytes())
	}
	var tags []string
	for _, e := range w.entries {
		tags = append(tags, string(e.Direction)+" "+e.Handler+" "+e.PayloadTag)
	}
	want := []string{
		"Outbound macro-analyst ye.query", "Inbound macro-analyst ye.command", "Outbound data-connector-wb ye.command",
		"Inbound data-connector-wb ye.response", "Outbound macro-analyst ye.response", "Inbound macro-analyst ye.response",
	}
	if strings.Join(tags, "\n") != strings.Join(want, "\n") {
		t.Errorf("journal has\n%s", strings.Join(tags, "\n"))
	}
	for _, e := range w.entries {
		doc, err := w.content(e.PayloadHash)
		if err != nil {
			t.Fatal(err)
		}
		if got := parse(t, string(doc)); got.Context.RequestID != q.Context.RequestID {
			t.Errorf("entry %d is of request %s", e.ID, got.Context.RequestID)
		}
	}
}

func TestMessageIsAPipelinePayload(t *testing.T) {
	w := newWorld(t)
	var call pipeline.Call
	w.analyse = func(ctx context.Context, m, _ Message) (Action, error) {
		call = pipeline.CallFrom(ctx)
		return nothing(), nil
	}
	doc := example(t, "query")
	if m := w.ask(t, doc); m != nil {
		t.Errorf("silence is %+v", m)
	}
	if call.CorrelationID != "req-789" {
		t.Errorf("correlation is %q", call.CorrelationID)
	}
	if len(w.entries) != 1 || w.entries[0].PayloadHash != hashing.Bytes([]byte(doc)) {
		t.Errorf("journal has %+v", w.entries)
	}
}

func TestAnswersNobodyAskedFor(t *testing.T) {
	w := newWorld(t)
	r := parse(t, example(t, "response"))
	in := pipeline.Ingress{Tag: TypeResponse.Tag(), Thread: "root", Profile: "main", Sender: brain.AgentID}
	w.remember(r.Context.SessionID, "src-wb-001", "world_bank_wdi")
	doc := edit(t, edit(t, example(t, "response"), "from", brain), "to", analyst)
	in.Payload = []byte(doc)
	f := wantFailure(t, w.deliver(t, in), parse(t, doc), ValidationFailed)
	if !strings.Contains(string(f.Details), "replyTo") {
		t.Errorf("failure is %+v", f)
	}
}

func TestAnswersStayInTheConversation(t *testing.T) {
	requirements.Covers(t, "YE-T.6")
	q := parse(t, example(t, "query"))
	for name, change := range map[string]func(*Message){
		"another session": func(m *Message) { m.Context.SessionID = "sess-other" },
		"another request": func(m *Message) { m.Context.RequestID = "req-other" },
		"another message": func(m *Message) { m.ReplyTo = otherID },
		"another agent":   func(m *Message) { m.From = connector },
		"another asker":   func(m *Message) { m.To = connector },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.analyse = func(_ context.Context, _, origin Message) (Action, error) {
				answer, err := Reply(origin, Gap{GapType: "missing_data", Indicator: "GDP"}, Evidence{}, w.Now())
				if change(&answer); err != nil {
					return Action{}, err
				}
				return Answer(answer), nil
			}
			wantFailure(t, w.ask(t, example(t, "query")), q, ValidationFailed)
		})
	}
}

func TestTypeIsTheTags(t *testing.T) {
	w := newWorld(t)
	doc := example(t, "query")
	m := w.deliver(t, pipeline.Ingress{Tag: TypeCommand.Tag(), Payload: []byte(doc), Thread: "root", Profile: "main", Sender: brain.AgentID})
	if f := wantFailure(t, m, parse(t, doc), ValidationFailed); !strings.Contains(string(f.Details), `"type"`) {
		t.Errorf("failure is %+v", f)
	}
}

// TestHandlerTrustsNoSchema has a pipeline that let a payload through.
func TestHandlerTrustsNoSchema(t *testing.T) {
	w := newWorld(t)
	gate := Gate{Known: func(string) bool { return true }, Holds: w.holds, Now: w.Now}
	h := w.handler(t, Config{Self: analyst, Takes: []Type{TypeQuery}, Gate: gate, Logger: slog.New(slog.DiscardHandler), Work: w.askForData})
	got, err := h.Handle(t.Context(), pipeline.Payload{Tag: TypeQuery.Tag(), Bytes: []byte("{}")}, pipeline.Context{Sender: brain.AgentID})
	want := pipeline.Fail(pipeline.Failure{Code: "tool.invalid_input", Message: "id: is missing"})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnswersGetNoMoreTime(t *testing.T) {
	requirements.Covers(t, "K-24")
	w := newWorld(t)
	q := parse(t, example(t, "query"))
	w.analyse = func(ctx context.Context, m, origin Message) (Action, error) {
		// The peer's answer has 30 s of its own, the question not.
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); !ok || left > q.Deadline().Sub(noon) {
			t.Errorf("%s has %v", m.Type, left)
		}
		return w.askForData(ctx, m, origin)
	}
	if m := w.ask(t, example(t, "query")); m.Type != TypeResponse {
		t.Errorf("answer is %+v", m)
	}
}

func TestUnaddressedRefusal(t *testing.T) {
	w := newWorld(t)
	m, err := w.edge.Deliver(t.Context(), pipeline.Ingress{
		Tag: TypeQuery.Tag(), Payload: []byte(edit(t, example(t, "query"), "id", "x")), Thread: "root", Profile: "main", Sender: brain.AgentID,
	})
	if m != nil {
		t.Errorf("got %+v", m)
	}
	wantError(t, err, ValidationFailed, "id")
}

func TestConfigsThatAreRefused(t *testing.T) {
	gate := Gate{Known: func(string) bool { return true }, Holds: func(context.Context, string, string) (bool, error) { return true, nil }, Now: time.Now}
	good := Config{
		Self: analyst, Takes: []Type{TypeQuery}, Gate: gate, Logger: slog.New(slog.DiscardHandler),
		Work: func(context.Context, Message, Message) (Action, error) { return nothing(), nil },
	}
	if _, err := NewHandler(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no work":                func(c *Config) { c.Work = nil },
		"no logger":              func(c *Config) { c.Logger = nil },
		"no instance":            func(c *Config) { c.Self.InstanceID = "" },
		"no clock":               func(c *Config) { c.Gate.Now = nil },
		"no journal":             func(c *Config) { c.Gate.Holds = nil },
		"no registry":            func(c *Config) { c.Gate.Known = nil },
		"unknown type":           func(c *Config) { c.Gives = []Type{"gossip"} },
		"peers without an error": func(c *Config) { c.Peers = []string{"x"} },
	} {
		bad := good
		change(&bad)
		if _, err := NewHandler(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
