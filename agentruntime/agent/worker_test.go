package agent

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// After a burst a few workers are left, and serve what comes; goleak in
// TestMain sees that they end with the session.
func TestWorkersAfterABurst(t *testing.T) {
	const burst = 3 * spareWorkers
	running, release := make(chan struct{}), make(chan struct{})
	c := serve(t, t.Context(), Config{Tools: []Tool{
		tool("waits", func(context.Context, *Call) (any, error) {
			running <- struct{}{}
			<-release
			return nil, nil
		}),
		tool("panics", func(context.Context, *Call) (any, error) { panic("no") }),
		tool("works", func(context.Context, *Call) (any, error) { return nil, nil }),
	}})
	c.call("first", "works", `{}`)
	c.result() // whatever a session runs besides is running
	before := runtime.NumGoroutine()
	for i := range burst {
		c.call(fmt.Sprint("burst", i), "waits", `{}`)
		<-running
	}
	close(release)
	for range burst {
		c.result()
	}
	for runtime.NumGoroutine() > before+spareWorkers {
		runtime.Gosched() // until the test's own time is over
	}
	for i := range burst {
		c.call(fmt.Sprint("panics", i), "panics", `{}`)
		if got := resultCode(c.result()); got != wire.CodeInternal {
			t.Errorf("a panic is %s", got)
		}
		c.call(fmt.Sprint("works", i), "works", `{}`)
		if r := c.result(); r.Status != wire.Succeeded {
			t.Errorf("after a panic: %+v", r)
		}
	}
}

// A tool whose calls were quick takes long once: what comes meanwhile, a ping, a
// cancel and other calls, is read all the same.
func TestACallThatKeepsTheTurnForLong(t *testing.T) {
	calls, release, acked := make(chan *Call, 1), make(chan struct{}), make(chan struct{})
	c := serve(t, t.Context(), Config{Tools: []Tool{
		tool("x", func(ctx context.Context, call *Call) (any, error) {
			calls <- call
			select {
			case <-ctx.Done():
				<-acked
				return nil, ctx.Err()
			case <-release:
				return nil, nil
			}
		}),
	}})
	c.call("quick", "x", `{}`)
	release <- struct{}{}
	c.result()
	quick := <-calls
	quick.tool.quick.Store(true) // however long it took here
	s := quick.session

	c.call("long", "x", `{}`)
	long := <-calls
	c.send(&wire.Message{Payload: &wire.Ping{}})
	if m := c.recv(); m.Type() != wire.TypePong {
		t.Fatalf("a ping is answered by %s", m.Type())
	}
	s.mu.Lock()
	if s.seen != nil || s.kept != nil {
		t.Error("a turn that was passed on is still thought to be kept")
	}
	s.mu.Unlock()
	c.call("beside", "x", `{}`)
	if beside := <-calls; beside.ID != "beside" {
		t.Fatalf("%s runs again", beside.ID)
	}
	c.send(&wire.Message{Payload: &wire.ToolCancel{CallID: long.ID}})
	if m := c.recv(); m.Type() != wire.TypeCancelAck {
		t.Fatalf("a cancel is answered by %s", m.Type())
	}
	close(acked)
	if r := c.result(); r.CallID != long.ID || r.Status != wire.Canceled {
		t.Errorf("the canceled call: %+v", r)
	}
	release <- struct{}{}
	if r := c.result(); r.CallID != "beside" || r.Status != wire.Succeeded {
		t.Errorf("the call beside: %+v", r)
	}
}
