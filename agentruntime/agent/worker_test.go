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
