package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const ts = "2026-01-16T12:00:00.5Z"

func text(s string) *string { return &s }

// samples holds one full message of every type.
func samples() []*Message {
	at := Time{time.Date(2026, 1, 16, 12, 0, 0, 5e6, time.UTC)}
	raw := json.RawMessage(`{"k":"ü"}`)
	payloads := []Payload{
		&Hello{SessionToken: "t", AgentID: "com.example.a", AgentVersion: "1.2.3-rc.1+b", ManifestHash: "ab", Protocol: ProtocolInfo{[]int{1}, []string{"tools"}}, SDK: &SDKInfo{"sdk", "1.0.0"}},
		&Welcome{1, "s", 5000, 4194304, ServerInfo{"1.0.0", "i"}},
		&Goodbye{"shutdown", 100},
		&Register{Tools: []Tool{{ToolID: "com.example.a/t", Name: "t", Description: "d", InputSchema: raw, OutputSchema: raw, Capabilities: []string{"streaming"}, SideEffects: true, RequiresDirective: true, Tags: []string{"x"}}}, Replace: true},
		&Registered{[]ToolID{"a/b"}, []RejectedTool{{"bad", &Error{Code: "protocol.invalid_tool", Message: "m"}}}},
		&Unregister{[]ToolID{"a/b"}},
		&Unregistered{[]ToolID{"a/b"}},
		&ToolCall{CallID: "c", ToolID: "a/b", Input: raw, TimeoutMS: 1, IdempotencyKey: "k", Caller: &Caller{"human", "u"}, Context: &CallContext{"/p", []string{"x"}, raw}},
		&ToolStream{CallID: "c", Seq: 1, Channel: Stderr, Data: StreamData{Text: text("")}, Done: true},
		&ToolStream{CallID: "c", Seq: 2, Channel: PartialResult, Data: StreamData{JSON: raw}},
		&ToolResult{CallID: "c", Status: Failed, Output: raw, Error: &Error{"tool.failed", "m", raw, true, "agent.runtime", raw}, StartedAt: at, FinishedAt: at, Metrics: raw},
		&ToolCancel{"c", "r", 5},
		&CancelAck{"c", true, "n"},
		&Heartbeat{"s", 1, 2, Degraded, raw},
		&Ping{}, &Pong{}, &CoreError{}, &AgentError{},
	}
	var all []*Message
	for i, p := range payloads {
		all = append(all, &Message{
			ID: fmt.Sprint("id-", i), TS: at.Time, InReplyTo: "before", RequestID: "req", CorrelationID: "cor",
			CausationID: "cause", Actor: &Actor{"agent", "x", "X"}, Payload: p,
		})
	}
	all[len(all)-1].Error = &Error{Code: "protocol.unknown_type", Message: "no"}
	return all
}

func encode(t testing.TB, m *Message) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := EncodeFrame(&buf, m, 0); err != nil {
		t.Fatal(err)
	}
	payload, err := frame.NewReader(&buf, 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(payload)
}

func TestRoundTrip(t *testing.T) {
	requirements.Covers(t, "OS-3.0.4", "OS-3.0.6", "OS-3.1.1", "OS-3.1.2", "OS-3.1.3", "OS-3.1.4", "OS-3.2.1",
		"OS-3.3.1", "OS-3.3.5", "OS-3.3.6", "OS-3.3.8", "OS-4.1.1.8", "OS-4.1.3.2", "OS-4.2.1.4", "OS-4.2.1.6", "OS-4.2.1.7", "OS-4.2.1.8", "OS-4.5.1.4",
		"OS-4.2.1.10", "OS-4.3.1.7", "OS-4.3.1.8", "OS-4.3.3.6", "OS-4.3.3.7", "OS-4.4.1.2", "OS-4.4.2.1", "OS-4.5.1.2")
	seen := map[Type]bool{}
	for _, m := range samples() {
		seen[m.Type()] = true
		doc := encode(t, m)
		back, err := Decode(doc, m.Type().From())
		if err != nil {
			t.Errorf("%s: %v\n%s", m.Type(), err, doc)
			continue
		}
		if diff := cmp.Diff(m, back); diff != "" {
			t.Errorf("%s: %s", m.Type(), diff)
		}
	}
	if len(seen) != 17 {
		t.Errorf("%d message types have a sample, want 17", len(seen))
	}
}

func TestFilledIn(t *testing.T) {
	requirements.Covers(t, "OS-3.0.4", "OS-3.3.7")
	m := &Message{Payload: &Ping{}, Error: &Error{Code: "a.b"}}
	doc := encode(t, m)
	form := `^\{"v":1,"type":"core\.ping","id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}","ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","error":\{"code":"a\.b","message":""\},"payload":\{\}\}$`
	if !regexp.MustCompile(form).Match(doc) {
		t.Errorf("got %s", doc)
	}
	if a, b := NewID(), NewID(); a == b {
		t.Error("two ids are equal")
	}
}

// edit changes one member of a sample hello's envelope, or of its payload if
// the name begins with "payload."; a nil value removes it.
func edit(t *testing.T, m *Message, name string, value any) []byte {
	t.Helper()
	var env map[string]any
	if err := json.Unmarshal(encode(t, m), &env); err != nil {
		t.Fatal(err)
	}
	at := env
	if rest, ok := strings.CutPrefix(name, "payload."); ok {
		at, name = env["payload"].(map[string]any), rest
	}
	if at[name] = value; value == nil {
		delete(at, name)
	}
	doc, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEnvelopeRules(t *testing.T) {
	requirements.Covers(t, "OS-3.0.1", "OS-3.0.2", "OS-3.0.3", "OS-3.0.5", "OS-3.0.6", "OS-3.2.1", "OS-3.3.2", "OS-4.0.1")
	long := strings.Repeat("x", 257)
	tests := []struct {
		field string
		value any
		code  string
	}{
		{"v", nil, CodeInvalidMessage},
		{"type", nil, CodeInvalidMessage},
		{"id", nil, CodeInvalidMessage},
		{"ts", nil, CodeInvalidMessage},
		{"payload", nil, CodeInvalidMessage},
		{"v", 2, CodeUnsupportedVersion},
		{"v", 0, CodeUnsupportedVersion},
		{"v", "1", CodeInvalidMessage},
		{"v", 1.5, CodeInvalidMessage},
		{"type", "core.welcome", CodeWrongDirection},
		{"type", "hello", CodeWrongDirection},
		{"type", "agent.", CodeWrongDirection},
		{"type", "", CodeWrongDirection},
		{"type", "agent.dance", CodeUnknownType},
		{"type", 7, CodeInvalidMessage},
		{"id", "", CodeInvalidMessage},
		{"id", 7, CodeInvalidMessage},
		{"id", long, CodeInvalidMessage},
		{"ts", "yesterday", CodeInvalidMessage},
		{"ts", "2026-01-16 12:00:00", CodeInvalidMessage},
		{"ts", "2026-01-16T12:00:00", CodeInvalidMessage},
		{"ts", 1768564800, CodeInvalidMessage},
		{"payload", []int{}, CodeInvalidMessage},
		{"payload", "{}", CodeInvalidMessage},
		{"payload", json.RawMessage("null"), CodeInvalidMessage},
		{"request_id", long, CodeInvalidMessage},
		{"correlation_id", long, CodeInvalidMessage},
		{"causation_id", long, CodeInvalidMessage},
		{"in_reply_to", 1, CodeInvalidMessage},
		{"actor", map[string]any{"type": "root", "id": "x"}, CodeInvalidMessage},
		{"actor", map[string]any{"type": "human"}, CodeInvalidMessage},
		{"actor", "human", CodeInvalidMessage},
		{"error", map[string]any{"code": "NOT A CODE", "message": ""}, CodeInvalidMessage},
		{"error", map[string]any{"code": "nodot", "message": ""}, CodeInvalidMessage},
		{"error", map[string]any{"code": "a.b", "message": strings.Repeat("m", 2049)}, CodeInvalidMessage},
		{"error", map[string]any{"code": "a.b", "message": "", "details": "text"}, CodeInvalidMessage},
		{"error", map[string]any{"code": "a.b", "message": "", "debug": 1}, CodeInvalidMessage},
	}
	hello := samples()[0]
	for _, tt := range tests {
		_, err := Decode(edit(t, hello, tt.field, tt.value), Agent)
		var de *DecodeError
		if !errors.As(err, &de) || de.Code != tt.code {
			t.Errorf("%s = %v: %v, want %s", tt.field, tt.value, err, tt.code)
		}
	}
}

func TestPayloadRules(t *testing.T) {
	requirements.Covers(t, "OS-4.1.1.2", "OS-4.1.1.4", "OS-4.1.1.6", "OS-4.1.1.7", "OS-4.2.1.1", "OS-4.2.1.11", "OS-4.3.1.2", "OS-4.3.1.3",
		"OS-4.3.1.4", "OS-4.3.1.5", "OS-4.3.2.3", "OS-4.3.2.4", "OS-4.3.2.5", "OS-4.3.2.6", "OS-4.3.3.2", "OS-4.3.3.3", "OS-4.5.1.3")
	tests := []struct {
		typ   Type
		field string
		value any
	}{
		{TypeHello, "session_token", nil},
		{TypeHello, "session_token", 5},
		{TypeHello, "agent_id", nil},
		{TypeHello, "agent_id", "../etc"},
		{TypeHello, "agent_version", "1.0"},
		{TypeHello, "agent_version", nil},
		{TypeHello, "protocol", nil},
		{TypeHello, "protocol", map[string]any{"supported_versions": []string{"1"}}},
		{TypeHello, "protocol", map[string]any{"supported_versions": []int{1}, "capabilities": "tools"}},
		{TypeHello, "sdk", map[string]any{"name": "x", "version": "latest"}},
		{TypeWelcome, "session_id", nil},
		{TypeWelcome, "heartbeat_interval_ms", "5000"},
		{TypeWelcome, "heartbeat_interval_ms", 0},
		{TypeWelcome, "max_frame_bytes", -1},
		{TypeWelcome, "accepted_version", nil},
		{TypeGoodbye, "reason", nil},
		{TypeGoodbye, "retry_after_ms", -1},
		{TypeRegister, "tools", nil},
		{TypeRegister, "tools", map[string]any{}},
		{TypeRegister, "tools", make([]struct{}, 257)},
		{TypeRegister, "replace", "yes"},
		{TypeRegistered, "rejected", []any{map[string]any{"tool_id": "a/b"}}},
		{TypeUnregister, "tool_ids", nil},
		{TypeToolCall, "call_id", nil},
		{TypeToolCall, "tool_id", "bare"},
		{TypeToolCall, "tool_id", "a/b/c"},
		{TypeToolCall, "input", nil},
		{TypeToolCall, "input", []int{1}},
		{TypeToolCall, "input", "{}"},
		{TypeToolCall, "input", json.RawMessage("null")},
		{TypeToolCall, "timeout_ms", -1},
		{TypeToolCall, "timeout_ms", "1"},
		{TypeToolCall, "caller", map[string]any{"type": "god", "id": "x"}},
		{TypeToolCall, "context", map[string]any{"ui": []int{}}},
		{TypeToolStream, "seq", 0},
		{TypeToolStream, "seq", -1},
		{TypeToolStream, "seq", 1.5},
		{TypeToolStream, "channel", "stdin"},
		{TypeToolStream, "channel", "partial_result"}, // its data is text
		{TypeToolStream, "data", map[string]any{"json": map[string]any{}}},
		{TypeToolStream, "data", "text"},
		{TypeToolResult, "call_id", nil},
		{TypeToolResult, "status", "done"},
		{TypeToolResult, "status", nil},
		{TypeToolResult, "started_at", "noon"},
		{TypeToolResult, "metrics", 5},
		{TypeToolResult, "error", map[string]any{"message": "no code"}},
		{TypeToolCancel, "call_id", ""},
		{TypeToolCancel, "deadline_ms", -5},
		{TypeCancelAck, "accepted", "yes"},
		{TypeHeartbeat, "session_id", nil},
		{TypeHeartbeat, "uptime_ms", -1},
		{TypeHeartbeat, "inflight_calls", "many"},
		{TypeHeartbeat, "status", "fine"},
		{TypeHeartbeat, "details", []int{}},
	}
	byType := map[Type]*Message{}
	for _, m := range samples() {
		if byType[m.Type()] == nil {
			byType[m.Type()] = m
		}
	}
	for _, tt := range tests {
		_, err := Decode(edit(t, byType[tt.typ], "payload."+tt.field, tt.value), tt.typ.From())
		var de *DecodeError
		if !errors.As(err, &de) || de.Code != CodeInvalidMessage || !strings.HasPrefix(de.Field, "payload") {
			t.Errorf("%s %s = %v: %v", tt.typ, tt.field, tt.value, err)
		}
	}
}

func TestUnknownPayloadFieldsAreIgnored(t *testing.T) {
	requirements.Covers(t, "OS-6.2.1")
	for _, m := range samples() {
		for i, value := range []any{"text", 7, []any{map[string]any{"a": nil}}, map[string]any{"call_id": "other"}} {
			got, err := Decode(edit(t, m, fmt.Sprintf("payload.x_new_%d", i), value), m.Type().From())
			if err != nil {
				t.Errorf("%s: %v", m.Type(), err)
				continue
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Errorf("%s changes: %s", m.Type(), diff)
			}
		}
	}
}

func TestSyntax(t *testing.T) {
	for _, doc := range []string{
		``, `{`, `{}{}`, `[]`, `{"v":1,"v":1}`, `{"v":1,}`, `{'v':1}`,
		"{\"v\":1,\"id\":\"\xff\"}",
		`{"v":1,"type":"agent.pong","id":"a","ts":"` + ts + `","payload":{"a":1,"a":2}}`,
		`{"V":1,"type":"agent.pong","id":"a","ts":"` + ts + `","payload":{}}`,
	} {
		if _, err := Decode([]byte(doc), Agent); !errors.As(err, new(*DecodeError)) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

func TestRefusalTellsWhatItAnswers(t *testing.T) {
	doc := `{"v":1,"type":"agent.tool.result","id":"m1","ts":"` + ts + `","request_id":"r1","payload":{"call_id":"c1","status":7,"output":{"secret":"canary"}}}`
	_, err := Decode([]byte(doc), Agent)
	var de *DecodeError
	if !errors.As(err, &de) || de.ID != "m1" || de.RequestID != "r1" || de.CallID != "c1" || de.Type != TypeToolResult || !de.ExpectsReply() {
		t.Fatalf("got %+v", de)
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("the error repeats the message: %v", err)
	}
	if r := de.Reply("x"); r.Code != CodeInvalidMessage || r.Where != "x" {
		t.Errorf("reply %+v", r)
	}
}

func TestSpecificationExamples(t *testing.T) {
	requirements.Covers(t, "OS-8.1", "OS-8.2", "OS-8.3")
	read := func(name string, from Side) *Message {
		doc, err := os.ReadFile("testdata/examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(doc, from)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	hello := read("hello.json", Agent)
	if p := hello.Payload.(*Hello); p.AgentID != "com.graphonomous.core" || p.SessionToken != "<redacted>" {
		t.Errorf("hello %+v", p)
	}
	call := read("call.json", Core)
	if p := call.Payload.(*ToolCall); p.ToolID != "com.graphonomous.core/graph_search" || p.TimeoutMS != 30000 {
		t.Errorf("call %+v", p)
	}
	result := read("result.json", Agent)
	if result.RequestID != call.RequestID || result.CorrelationID != call.CorrelationID ||
		result.Payload.(*ToolResult).CallID != call.Payload.(*ToolCall).CallID {
		t.Error("the result does not match its call")
	}
}

func TestEncodeRefuses(t *testing.T) {
	var buf bytes.Buffer
	buf.WriteString("before")
	bad := []*Message{
		{Payload: &ToolCall{CallID: "c", ToolID: "a/b", Input: json.RawMessage(`[]`)}},
		{Payload: &ToolCall{CallID: "c", ToolID: "a/b", Input: json.RawMessage(`{"a":1,"a":2}`)}},
		{Payload: &ToolCall{CallID: "c", ToolID: "a/b", Input: json.RawMessage(`{"a":"` + "\xff" + `"}`)}},
		{Payload: &ToolCancel{}},
	}
	for _, m := range bad {
		if err := EncodeFrame(&buf, m, 0); err == nil || buf.String() != "before" {
			t.Errorf("%+v: %v, buffer %q", m.Payload, err, buf.String())
		}
	}
	big := &Message{Payload: &ToolCall{CallID: "c", ToolID: "a/b", Input: json.RawMessage(`{"a":"` + strings.Repeat("x", 500) + `"}`)}}
	if err := EncodeFrame(&buf, big, 400); !errors.Is(err, frame.ErrTooLarge) || buf.String() != "before" {
		t.Errorf("over the limit: %v", err)
	}
}

func TestSafeText(t *testing.T) {
	if got := SafeText("a\x1b[31mb\nc\xff\x00"); got != "a[31mb c\uFFFD" {
		t.Errorf("got %q", got)
	}
	if got := SafeText(strings.Repeat("€", 1000)); len(got) > maxMessageBytes || len(got) < maxMessageBytes-3 || !json.Valid([]byte(`"`+got+`"`)) {
		t.Errorf("got %d bytes", len(got))
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(encode(f, m), m.Type().From() == Core)
	}
	for _, name := range []string{"hello", "call", "result"} {
		doc, err := os.ReadFile("testdata/examples/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc, name == "call")
	}
	f.Fuzz(func(t *testing.T, doc []byte, core bool) {
		from := Agent
		if core {
			from = Core
		}
		m, err := Decode(doc, from)
		if err != nil {
			if !errors.As(err, new(*DecodeError)) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if m.Type().From() != from {
			t.Fatalf("%s from %s", m.Type(), from)
		}
		var buf bytes.Buffer
		if err := EncodeFrame(&buf, m, 0); err != nil {
			t.Fatalf("a decoded message cannot be encoded: %v\n%s", err, doc)
		}
		again, err := Decode(buf.Bytes()[frame.HeaderBytes:], from)
		if err != nil {
			t.Fatalf("decode again: %v\n%s", err, buf.Bytes())
		}
		m.TS, again.TS = m.TS.Truncate(time.Millisecond).UTC(), again.TS.UTC()
		if a, b := encode(t, m), encode(t, again); !bytes.Equal(a, b) {
			t.Fatalf("not stable:\n%s\n%s", a, b)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, m := range samples() {
		if m.Type() != TypeToolCall && m.Type() != TypeToolResult {
			continue
		}
		b.Run(string(m.Type()), func(b *testing.B) {
			doc := encode(b, m)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(doc, m.Type().From()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
