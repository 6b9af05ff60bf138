package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

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
		if n := len(f.audit.of(auditHeartbeatMissed)); n != 0 || !f.core.healthy() {
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
		if n := len(f.audit.of(auditUnhealthy)); n != 1 {
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
