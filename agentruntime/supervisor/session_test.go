package supervisor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func ok(output string) *wire.ToolResult {
	return &wire.ToolResult{Status: wire.Succeeded, Output: []byte(output)}
}

func TestHeartbeats(t *testing.T) {
	requirements.Covers(t, "OS-4.5.1.5", "OS-4.5.1.7")
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, Config{HeartbeatInterval: time.Second}, Spec{})
		f.join("x")
		for range 3 { // late by less than half an interval
			time.Sleep(1400 * time.Millisecond)
			f.beat(wire.OK)
		}
		synctest.Wait()
		if n := len(f.audit.of(AuditHeartbeatMissed)); n != 0 || !f.core.healthy() {
			t.Fatalf("healthy agent: %d missed beats", n)
		}
		time.Sleep(3490 * time.Millisecond)
		if !f.core.healthy() {
			t.Error("unhealthy before the third missed beat")
		}
		time.Sleep(20 * time.Millisecond)
		if f.core.healthy() {
			t.Error("healthy after three missed beats")
		}
		time.Sleep(time.Second)
		if n := len(f.audit.of(AuditUnhealthy)); n != 1 {
			t.Errorf("marked unhealthy %d times", n)
		}
		f.beat(wire.OK)
		synctest.Wait()
		if !f.core.healthy() {
			t.Error("unhealthy after a beat")
		}
		f.beat(wire.Unhealthy)
		synctest.Wait()
		if f.core.healthy() {
			t.Error("routes to an agent that calls itself unhealthy")
		}
		f.beat(wire.Degraded)
		synctest.Wait()
		if !f.core.healthy() {
			t.Error("does not route to a degraded agent")
		}
		begin := time.Now()
		f.wait()
		if d := time.Since(begin); d < 6*time.Second || d > 8*time.Second {
			t.Errorf("ended after %s without a beat", d)
		}
		if err := f.core.endCause(); !errors.Is(err, errHeartbeat) {
			t.Errorf("ended because %v", err)
		}
	})
}

func TestHeartbeatOfAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, Config{HeartbeatInterval: time.Second}, Spec{})
		f.join()
		for range 4 {
			time.Sleep(time.Second)
			f.send(&wire.Message{Payload: &wire.Heartbeat{SessionID: "other", Status: wire.OK}})
		}
		synctest.Wait()
		if f.core.healthy() || len(f.audit.of(AuditViolation)) != 4 {
			t.Error("beats of another session count")
		}
	})
}

func TestDeadlines(t *testing.T) {
	requirements.Covers(t, "OS-4.3.3.8", "OS-4.4.1.1", "OS-4.4.1.3", "OS-4.4.2.2", "OS-4.3.3.9")
	tests := []struct {
		name   string
		answer func(f *fake, call, cancel *wire.Message)
		code   string
		took   time.Duration
	}{
		{"no answer", func(*fake, *wire.Message, *wire.Message) {}, wire.CodeTimeout, 2500 * time.Millisecond},
		{"canceled", func(f *fake, call, _ *wire.Message) {
			time.Sleep(100 * time.Millisecond)
			f.reply(call, &wire.ToolResult{Status: wire.Canceled, Error: &wire.Error{Code: wire.CodeCanceled}})
		}, wire.CodeTimeout, 2100 * time.Millisecond},
		{"success wins the race", func(f *fake, call, _ *wire.Message) { f.reply(call, ok(`{}`)) }, "", 2 * time.Second},
		{"agent fails for another reason", func(f *fake, call, _ *wire.Message) {
			f.reply(call, &wire.ToolResult{Status: wire.Failed})
		}, wire.CodeTimeout, 2 * time.Second},
		{"success, then canceled", func(f *fake, call, _ *wire.Message) {
			f.reply(call, ok(`{}`))
			f.reply(call, &wire.ToolResult{Status: wire.Canceled})
		}, "", 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{})
				f.join("x")
				begin := time.Now()
				end := f.call(Call{Tool: "x", CallID: "c1", Timeout: 2 * time.Second})
				call := f.recv()
				if ms := call.Payload.(*wire.ToolCall).TimeoutMS; ms != 2000 {
					t.Errorf("timeout_ms is %d", ms)
				}
				cancel := f.recv()
				if p := cancel.Payload.(*wire.ToolCancel); p.CallID != "c1" || p.DeadlineMS != 500 {
					t.Errorf("cancel %+v", p)
				}
				tt.answer(f, call, cancel)
				got := <-end
				if code(got.err) != tt.code || time.Since(begin) != tt.took {
					t.Errorf("%v after %s, want %q after %s", got.err, time.Since(begin), tt.code, tt.took)
				}
			})
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, Config{HeartbeatInterval: time.Hour, MaxInflight: 1}, Spec{})
		f.join("x")
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan *Error, 1)
		go func() {
			_, err := f.core.call(ctx, Call{Tool: "x", Input: []byte(`{}`), CallID: "c1"})
			end <- err
		}()
		call := f.recv()
		cancel()
		f.recv()
		err := <-end
		if code(err) != wire.CodeCanceled || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// The agent still works on it, so it still counts.
		if got := <-f.call(Call{Tool: "x"}); code(got.err) != wire.CodeOverloaded || !got.err.Retryable {
			t.Errorf("second call: %v", got.err)
		}
		f.reply(call, ok(`{}`))
		synctest.Wait()
		again := f.call(Call{Tool: "x"})
		f.reply(f.recv(), ok(`{}`))
		if got := <-again; got.err != nil {
			t.Errorf("third call: %v", got.err)
		}
	})
}

func TestRunawayEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, Config{HeartbeatInterval: time.Hour}, Spec{Limits: Limits{KillRunaway: true}})
		f.join("x")
		other := f.call(Call{Tool: "x"})
		f.recv()
		end := f.call(Call{Tool: "x", Timeout: time.Second})
		f.recv()
		f.recv()
		if got := <-end; code(got.err) != wire.CodeTimeout {
			t.Errorf("runaway: %v", got.err)
		}
		f.wait()
		if err := f.core.endCause(); !errors.Is(err, errRunaway) {
			t.Errorf("session ends because %v", err)
		}
		if got := <-other; code(got.err) != wire.CodeUnavailable || got.err.Retryable {
			t.Errorf("other call: %v", got.err)
		}
	})
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

func TestStream(t *testing.T) {
	requirements.Covers(t, "OS-4.3.2.1", "OS-4.3.2.3", "OS-4.3.2.7")
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
		{"over the limit", head(limit + 1), AuditEvent{Type: AuditFrameTooLarge, Size: limit + 1, Limit: limit}, false},
		{"all ones", head(0xffffffff), AuditEvent{Type: AuditFrameTooLarge, Size: 0xffffffff, Limit: limit}, false},
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
	if e := f.audit.of(AuditCallRouted); len(e) != 1 || e[0].Causation != "directive-1" {
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
