package supervisor

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// TestStopAgent: one agent ends, with all it started, and may come back with
// another Spec; the others stay.
func TestStopAgent(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("family"))
	other := agentSpec("reference")
	other.ID = "other"
	start(t, n, other)
	pids := family(t, n)
	if err := n.StopAgent(t.Context(), reference.ID); err != nil {
		t.Fatal(err)
	}
	if !allGone(pids) {
		t.Error("processes of the stopped agent live")
	}
	if _, err := refCall(n, "hello_world", `{}`); code(err) != wire.CodeRouteNotFound {
		t.Errorf("call: %v", err)
	}
	if err := n.StopAgent(t.Context(), reference.ID); !errors.Is(err, ErrNoAgent) {
		t.Errorf("stop twice: %v", err)
	}
	if st := n.Status(); len(st) != 1 || st[0].ID != "other" || st[0].State != StateRunning {
		t.Errorf("status %+v", st)
	}
	spec := agentSpec("reference")
	spec.Tools = []string{"sleep"}
	start(t, n, spec)
	if _, err := refCall(n, "sleep", `{"ms":0}`); err != nil {
		t.Errorf("started again: %v", err)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	n := newNode(t, Config{})
	spec := agentSpec("reference")
	spec.Tools = []string{"sleep"}
	start(t, n, spec)
	tools, err := n.Tools(reference.ID)
	if err != nil || len(tools) != len(reference.ToolNames) {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	for _, tool := range tools {
		if tool.Routable != (tool.Name == "sleep") || tool.Description == "" || len(tool.InputSchema) == 0 {
			t.Errorf("tool %+v", tool)
		}
	}
	if _, err := n.Tools("nobody"); !errors.Is(err, ErrNoAgent) {
		t.Errorf("nobody's tools: %v", err)
	}
}

// TestAllowIsAskedBeforeEveryLaunch: what is no longer allowed does not come
// back after a crash, and is not tried again.
func TestAllowIsAskedBeforeEveryLaunch(t *testing.T) {
	n := newNode(t, Config{})
	var asked atomic.Int32
	var mu sync.Mutex
	var no error
	spec := agentSpec("tools")
	spec.Tools = append(spec.Tools, "die")
	spec.Allow = func() error {
		asked.Add(1)
		mu.Lock()
		defer mu.Unlock()
		return no
	}
	start(t, n, spec)
	mu.Lock()
	no = errors.New("its manifest changed")
	mu.Unlock()
	if _, err := refCall(n, "die", `{}`); code(err) != wire.CodeUnavailable {
		t.Fatalf("die: %v", err)
	}
	eventually(t, "the agent stays down", func() bool { return n.Status()[0].State == StateDown })
	if st := n.Status()[0]; !strings.Contains(st.Reason, "its manifest changed") || asked.Load() != 2 {
		t.Errorf("reason %q, asked %d times", st.Reason, asked.Load())
	}
	mu.Lock()
	no = nil
	mu.Unlock()
	if err := n.Restart(reference.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent is back", func() bool { return n.Status()[0].State == StateRunning })

	refused := newNode(t, Config{})
	spec.Allow = func() error { return errors.New("never") }
	if err := refused.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("start: %v", err)
	}
	if events := refused.audited(auditRunStarted); len(events) != 0 {
		t.Errorf("it was started: %+v", events)
	}
}

func TestProcessLimits(t *testing.T) {
	n := newNode(t, Config{})
	spec := agentSpec("tools")
	spec.Tools = append(spec.Tools, "limits")
	spec.Limits.OpenFiles, spec.Limits.Concurrent = 61, 2
	start(t, n, spec)
	r, err := refCall(n, "limits", `{}`)
	if err != nil || string(r.Output) != `{"hard":61,"soft":61}` {
		t.Errorf("open files: %s, %v", r.Output, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 2 {
		wg.Go(func() { _, _ = refCall(n, "sleep", `{"ms":60000}`) })
	}
	eventually(t, "two calls are in flight", func() bool { return n.Status()[0].Inflight == 2 })
	if _, err := refCall(n, "hello_world", `{}`); code(err) != wire.CodeOverloaded {
		t.Errorf("a third call: %v", err)
	}
	if err := n.StopAgent(t.Context(), reference.ID); err != nil {
		t.Error(err)
	}
}

// TestLaunchErrorHasTheLastWords: an operator sees what the agent had to say.
func TestLaunchErrorHasTheLastWords(t *testing.T) {
	n := newNode(t, Config{})
	err := n.Start(t.Context(), agentSpec("exit"))
	if !errors.Is(err, errExited) || !strings.Contains(err.Error(), "it said: ") || !strings.Contains(err.Error(), "at once") {
		t.Errorf("got %v", err)
	}
}
