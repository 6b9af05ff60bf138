package supervisor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestStrayMessages(t *testing.T) {
	requirements.Covers(t, "OS-4.3.2.2", "OS-4.3.3.8", "K-36")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	end := f.call(Call{Tool: "x", CallID: "c1"})
	call := f.recv()
	f.reply(call, ok(`{"n":1}`))
	f.reply(call, ok(`{"n":2}`)) // a second result
	if got := <-end; string(got.Output) != `{"n":1}` {
		t.Errorf("got %s", got.Output)
	}
	empty := ""
	f.send(&wire.Message{Payload: &wire.ToolStream{CallID: "c1", Seq: 1, Channel: wire.Log, Data: wire.StreamData{Text: &empty}}})
	f.send(&wire.Message{Payload: &wire.ToolResult{CallID: "canary", Status: wire.Succeeded}})
	// The connection has survived: another call works.
	end = f.call(Call{Tool: "x"})
	f.reply(f.recv(), ok(`{}`))
	if got := <-end; got.err != nil {
		t.Error(got.err)
	}
	var reasons []string
	for _, e := range f.audit.of(AuditViolation) {
		reasons = append(reasons, e.Reason)
		if strings.Contains(fmt.Sprint(e), "canary") {
			t.Errorf("audit repeats what the agent made up: %+v", e)
		}
	}
	if want := []string{"second result", "result of an unknown call"}; !slices.Equal(reasons, want) {
		t.Errorf("audit %v, want %v", reasons, want)
	}
	if f.core.stray != 3 {
		t.Errorf("%d stray messages, want 3", f.core.stray)
	}
}

// The audit trail is kept for ever: what an agent can cause there at will is bounded,
// and the session goes on.
func TestAgentCannotFillTheAuditTrail(t *testing.T) {
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	for range 3 * maxProvokedLines {
		f.send(&wire.Message{Payload: &wire.ToolResult{CallID: "none", Status: wire.Succeeded}})
	}
	end := f.call(Call{Tool: "x"})
	f.reply(f.recv(), ok(`{}`))
	if got := <-end; got.err != nil {
		t.Error(got.err)
	}
	lines := f.audit.of(AuditViolation)
	if len(lines) != maxProvokedLines || f.core.stray != 3*maxProvokedLines {
		t.Fatalf("%d lines of %d stray results", len(lines), f.core.stray)
	}
	if last := lines[maxProvokedLines-1].Reason; !strings.HasSuffix(last, "are not written down") {
		t.Errorf("the last line says %q", last)
	}
}

func TestUnknownTypes(t *testing.T) {
	requirements.Covers(t, "OS-6.2.2", "OS-6.2.3", "K-15")
	const unknown = `{"v":1,"type":"agent.dance","id":"m1","ts":"2026-01-16T12:00:00Z","payload":{}%s}`
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	f.frame(fmt.Sprintf(unknown, ""))
	f.frame(fmt.Sprintf(unknown, `,"request_id":"r1"`))
	m := f.recv() // the answer to the second; the first got none
	if m.Type() != wire.TypeCoreError || m.InReplyTo != "m1" || m.RequestID != "r1" || m.Error.Code != wire.CodeUnknownType {
		t.Errorf("answer %+v", m)
	}
	strict := newFake(t, Config{HeartbeatInterval: time.Hour, CloseOnUnknown: true}, Spec{})
	strict.join("x")
	strict.frame(fmt.Sprintf(unknown, ""))
	strict.wait()
}

func TestHostileFrames(t *testing.T) {
	requirements.Covers(t, "OS-2.2.2", "OS-2.2.8", "OS-2.2.9")
	const limit = 100_000
	head := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	object := func(n int) []byte {
		return append(head(uint32(n)), []byte(`{"a":"`+strings.Repeat("c", n-8)+`"}`)...)
	}
	tests := []struct {
		name  string
		bytes []byte
		event AuditEvent // nothing but the fields that matter
		stays bool
	}{
		{"length 0", head(0), AuditEvent{Type: AuditViolation}, false},
		{"over the limit", head(limit + 1), AuditEvent{Type: auditFrameTooLarge, Size: limit + 1, Limit: limit}, false},
		{"all ones", head(0xffffffff), AuditEvent{Type: auditFrameTooLarge, Size: 0xffffffff, Limit: limit}, false},
		{"exactly the limit", object(limit), AuditEvent{Type: AuditViolation, Code: wire.CodeInvalidMessage}, true},
		{"array", append(head(4), "[{}]"...), AuditEvent{Type: AuditViolation}, false},
		{"not UTF-8", append(head(3), "{\xff}"...), AuditEvent{Type: AuditViolation}, false},
		{"not JSON", append(head(8), "{canary}"...), AuditEvent{Type: AuditViolation, Code: wire.CodeInvalidMessage}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, Config{HeartbeatInterval: time.Hour, MaxFrameBytes: limit}, Spec{})
			f.join("x")
			f.raw(tt.bytes)
			if tt.stays {
				end := f.call(Call{Tool: "x"})
				f.reply(f.recv(), ok(`{}`))
				if got := <-end; got.err != nil {
					t.Error(got.err)
				}
			} else {
				f.wait()
			}
			events := f.audit.of(tt.event.Type)
			if len(events) != 1 || events[0].AgentID != fakeID || events[0].Size != tt.event.Size || events[0].Limit != tt.event.Limit ||
				strings.Contains(fmt.Sprint(events), "canary") {
				t.Errorf("audit %+v", events)
			}
		})
	}
}

func TestHalfMessages(t *testing.T) {
	for name, bytes := range map[string][]byte{"half header": {0, 0}, "half body": {0, 0, 0, 9, '{', '"'}} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
			f.join("x")
			end := f.call(Call{Tool: "x", IdempotencyKey: "k"})
			f.recv()
			f.raw(bytes)
			f.conn.Close()
			f.wait()
			if got := <-end; code(got.err) != wire.CodeUnavailable || !got.err.Retryable {
				t.Errorf("call in flight: %v", got.err)
			}
			if got := <-f.call(Call{Tool: "x"}); code(got.err) != wire.CodeUnavailable || !got.err.Retryable {
				t.Errorf("call after the end: %v", got.err)
			}
		})
	}
}

func TestViolationsEndTheSession(t *testing.T) {
	requirements.Covers(t, "OS-4.0.1")
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	go func() { // core answers each
		for {
			if _, err := f.next(); err != nil {
				return
			}
		}
	}()
	n := 0
	for ; n < 100; n++ {
		b := []byte(`{"v":1,"type":"core.ping","id":"m","ts":"2026-01-16T12:00:00Z","payload":{}}`)
		if _, err := f.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			break
		}
	}
	f.wait()
	if n < maxViolations || n > maxViolations+2 {
		t.Errorf("ended after %d violations", n)
	}
	if e := f.audit.of(AuditViolation); len(e) == 0 || e[0].Code != wire.CodeWrongDirection {
		t.Errorf("audit %+v", e)
	}
}

func TestMalformedResultEndsItsCallOnly(t *testing.T) {
	f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
	f.join("x")
	end, other := f.call(Call{Tool: "x", CallID: "c1"}), (<-chan called)(nil)
	f.recv()
	other = f.call(Call{Tool: "x", CallID: "c2"})
	call2 := f.recv()
	f.frame(`{"v":1,"type":"agent.tool.result","id":"m","ts":"2026-01-16T12:00:00Z","payload":{"call_id":"c1","status":"great"}}`)
	if m := f.recv(); m.Error == nil || m.Error.Code != wire.CodeInvalidMessage {
		t.Errorf("answer %+v", m)
	}
	if got := <-end; code(got.err) != wire.CodeInvalidMessage {
		t.Errorf("c1: %v", got.err)
	}
	f.reply(call2, ok(`{}`))
	if got := <-other; got.err != nil {
		t.Errorf("c2: %v", got.err)
	}
}
