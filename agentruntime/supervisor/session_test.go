package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func ok(output string) *wire.ToolResult {
	return &wire.ToolResult{Status: wire.Succeeded, Output: []byte(output)}
}

func TestResults(t *testing.T) {
	requirements.Covers(t, "OS-4.3.3.1", "OS-4.3.3.4", "OS-4.3.3.5", "OS-4.3.3.9", "OS-2.2.6", "OS-2.2.7", "OS-9.2", "K-11", "AP-9.1.2", "AP-9.2.5")
	spec := Spec{Limits: Limits{MaxOutputBytes: 100, PerTool: map[string]ToolLimits{"small": {MaxInputBytes: 10, MaxOutputBytes: 10}}}}
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, spec)
	f.join("x", "small")
	f.send(&wire.Message{Payload: &wire.Register{Tools: []wire.Tool{{
		ToolID: fakeID + "/typed", Name: "typed", InputSchema: []byte(`{"required":["a"]}`), OutputSchema: []byte(`{"required":["b"]}`),
	}}}})
	f.recv()
	leak := fmt.Sprintf(`{"t":"%s"}`, f.token.secret)
	tests := []struct {
		tool, input string
		result      *wire.ToolResult // nil: the agent must not be asked
		code        string
	}{
		{"x", `{}`, ok(`{"a":1}`), ""},
		{"x", `{}`, &wire.ToolResult{Status: wire.Succeeded}, ""},
		{"x", `{}`, ok(`[1]`), wire.CodeInvalidOutput},
		{"x", `{}`, ok(`null`), ""},
		{"x", `{}`, ok(`{"a":"` + strings.Repeat("x", 100) + `"}`), wire.CodeOutputTooLarge},
		{"x", `{}`, ok(leak), wire.CodePolicyViolation},
		{"x", `{}`, &wire.ToolResult{Status: wire.Failed, Error: &wire.Error{Code: "shop.closed", Message: "later"}}, "shop.closed"},
		{"x", `{}`, &wire.ToolResult{Status: wire.Failed, Error: &wire.Error{Code: "a.b", Message: f.token.secret}}, wire.CodePolicyViolation},
		{"x", `{}`, &wire.ToolResult{Status: wire.Failed}, wire.CodeFailed},
		{"x", `{}`, &wire.ToolResult{Status: wire.Canceled}, wire.CodeCanceled},
		{"x", leak, nil, wire.CodePolicyViolation},
		{"x", `[]`, nil, wire.CodeInvalidInput},
		{"x", `"a"`, nil, wire.CodeInvalidInput},
		{"x", `{"a":1,"a":2}`, nil, wire.CodeInvalidInput},
		{"x", `{`, nil, wire.CodeInvalidInput},
		{"small", `{"a":"12345"}`, nil, wire.CodeInvalidInput},
		{"small", `{}`, ok(`{"a":"12345"}`), wire.CodeOutputTooLarge},
		{"typed", `{}`, nil, wire.CodeInvalidInput},
		{"typed", `{"a":1}`, ok(`{"b":1}`), ""},
		{"typed", `{"a":1}`, ok(`{}`), wire.CodeInvalidOutput},
		{"none", `{}`, nil, wire.CodeUnavailable},
	}
	for _, tt := range tests {
		end := f.call(Call{Tool: tt.tool, Input: []byte(tt.input)})
		if tt.result != nil {
			f.reply(f.recv(), tt.result)
		}
		got := <-end
		if code(got.err) != tt.code {
			t.Errorf("%s(%s): %v, want %q", tt.tool, tt.input, got.err, tt.code)
		}
		if got.err != nil && strings.Contains(got.err.Error(), f.token.secret) {
			t.Errorf("the error shows the token")
		}
	}
}

func TestCorrelation(t *testing.T) {
	requirements.Covers(t, "OS-3.1.5", "OS-3.1.6", "OS-3.2.2", "OS-2.3.2", "OS-4.3.1.1")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	end := f.call(Call{Tool: "x", Actor: &wire.Actor{Type: "human", ID: "u1"}, ProjectRoot: "/p", IdempotencyKey: "k"})
	m := f.recv()
	p := m.Payload.(*wire.ToolCall)
	if m.RequestID == "" || m.CorrelationID == "" || p.CallID == "" || m.Actor.ID != "u1" || p.Caller.ID != "u1" ||
		p.Context.ProjectRoot != "/p" || p.IdempotencyKey != "k" || p.ToolID != fakeID+"/x" {
		t.Errorf("call is %+v %+v", m, p)
	}
	f.reply(m, ok(`{}`))
	<-end
	// Results in the opposite order of the calls.
	var ends []<-chan called
	var calls []*wire.Message
	for i := range 5 {
		ends = append(ends, f.call(Call{Tool: "x", CallID: fmt.Sprint(i), RequestID: "r", CorrelationID: "c", CausationID: "d"}))
		m := f.recv()
		if m.RequestID != "r" || m.CorrelationID != "c" || m.CausationID != "d" {
			t.Errorf("call is %+v", m)
		}
		calls = append(calls, m)
	}
	for _, m := range slices.Backward(calls) {
		f.reply(m, ok(`{"id":"`+m.Payload.(*wire.ToolCall).CallID+`"}`))
	}
	for i, end := range ends {
		if got := <-end; got.err != nil || string(got.Output) != fmt.Sprintf(`{"id":"%d"}`, i) {
			t.Errorf("call %d got %s, %v", i, got.Output, got.err)
		}
	}
}

func TestStream(t *testing.T) {
	requirements.Covers(t, "OS-4.3.2.1", "OS-4.3.2.3", "OS-4.3.2.7", "OS-2.3.1")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	var got []string
	end := f.call(Call{Tool: "x", OnStream: func(c Chunk) { got = append(got, fmt.Sprint(c.Seq, c.Channel, c.Text, string(c.JSON), c.Done)) }})
	call := f.recv()
	id := call.Payload.(*wire.ToolCall).CallID
	chunk := func(seq int64, done bool, text string) {
		f.send(&wire.Message{Payload: &wire.ToolStream{CallID: id, Seq: seq, Channel: wire.Stdout, Data: wire.StreamData{Text: &text}, Done: done}})
	}
	chunk(2, false, "does not begin with 1")
	chunk(1, false, "one")
	chunk(1, false, "again")
	f.send(&wire.Message{Payload: &wire.ToolStream{CallID: id, Seq: 2, Channel: wire.PartialResult, Data: wire.StreamData{JSON: []byte(`{"p":1}`)}}})
	chunk(5, true, "token "+f.token.secret)
	chunk(6, false, "after done")
	f.reply(call, ok(`{}`))
	r := <-end
	want := []string{"1 stdout one  false", "2 partial_result  {\"p\":1} false", "5 stdout token [REDACTED]  true"}
	for i := range want {
		want[i] = strings.Join(strings.Fields(want[i]), " ")
	}
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if len(got) != 3 || r.Stream != (StreamStats{Delivered: 3, Violations: 3}) {
		t.Errorf("got %q, %+v", got, r.Stream)
	}
	for i := range got {
		if strings.ReplaceAll(got[i], " ", "") != strings.ReplaceAll(want[i], " ", "") {
			t.Errorf("chunk %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestUnreadStreamBlocksNobody(t *testing.T) {
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	release := make(chan struct{})
	end := f.call(Call{Tool: "x", OnStream: func(Chunk) { <-release }})
	call := f.recv()
	text := strings.Repeat("x", 30_000)
	const chunks = 500
	for seq := range int64(chunks) {
		f.send(&wire.Message{Payload: &wire.ToolStream{
			CallID: call.Payload.(*wire.ToolCall).CallID, Seq: seq + 1, Channel: wire.Stdout, Data: wire.StreamData{Text: &text},
		}})
	}
	other := f.call(Call{Tool: "x"})
	f.reply(f.recv(), ok(`{}`))
	if got := <-other; got.err != nil {
		t.Fatal(got.err)
	}
	f.reply(call, ok(`{}`))
	close(release)
	got := <-end
	if got.Stream.Delivered+got.Stream.Dropped != chunks || got.Stream.Dropped == 0 || got.Stream.Delivered > streamBytes/len(text)+1 {
		t.Errorf("stats %+v", got.Stream)
	}
}

func TestAgentErrorEndsItsCall(t *testing.T) {
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	end := f.call(Call{Tool: "x"})
	m := f.recv()
	f.send(&wire.Message{InReplyTo: m.ID, Error: &wire.Error{Code: wire.CodeUnknownType, Message: "what?"}, Payload: &wire.AgentError{}})
	if got := <-end; code(got.err) != wire.CodeUnknownType || !got.err.FromAgent {
		t.Errorf("got %v", got.err)
	}
}

func TestGoodbye(t *testing.T) {
	requirements.Covers(t, "OS-4.1.3.1")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	f.core.goodbye("shutdown")
	if p, isGoodbye := f.recv().Payload.(*wire.Goodbye); !isGoodbye || p.Reason != "shutdown" {
		t.Errorf("got %+v", p)
	}
	if _, err := f.next(); err == nil {
		t.Error("the connection stays open after goodbye")
	}
	f.wait()
}

func TestDirectiveAndDuplicates(t *testing.T) {
	requirements.Covers(t, "OS-4.2.1.9", "OS-9.1", "OS-0.3")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	f.send(&wire.Message{Payload: &wire.Register{Tools: []wire.Tool{{
		ToolID: fakeID + "/d", Name: "d", InputSchema: []byte(anyTool), RequiresDirective: true,
	}}}})
	f.recv()
	if got := <-f.call(Call{Tool: "d"}); code(got.err) != wire.CodeUnauthorized {
		t.Errorf("without a directive: %v", got.err)
	}
	end := f.call(Call{Tool: "d", CausationID: "directive-1", CallID: "c1"})
	call := f.recv()
	if got := <-f.call(Call{Tool: "x", CallID: "c1"}); code(got.err) != wire.CodeDuplicateCall {
		t.Errorf("same call id: %v", got.err)
	}
	f.reply(call, ok(`{}`))
	if got := <-end; got.err != nil {
		t.Error(got.err)
	}
	if e := f.audit.of(auditCallRouted); len(e) != 1 || e[0].Causation != "directive-1" {
		t.Errorf("audit %+v", e)
	}
}

func TestActorHasNoAuthority(t *testing.T) {
	requirements.Covers(t, "OS-3.2.3")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	f.send(&wire.Message{Payload: &wire.Register{Tools: []wire.Tool{{
		ToolID: fakeID + "/d", Name: "d", InputSchema: []byte(anyTool), RequiresDirective: true,
	}}}})
	f.recv()
	for _, actor := range []*wire.Actor{nil, {Type: "human", ID: "owner"}, {Type: "agent", ID: fakeID}, {Type: "system", ID: "core"}} {
		if got := <-f.call(Call{Tool: "d", Actor: actor}); code(got.err) != wire.CodeUnauthorized {
			t.Errorf("actor %+v: %v", actor, got.err)
		}
		end := f.call(Call{Tool: "x", Actor: actor})
		f.reply(f.recv(), ok(`{}`))
		if got := <-end; got.err != nil {
			t.Errorf("actor %+v: %v", actor, got.err)
		}
	}
}
