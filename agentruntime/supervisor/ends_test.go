package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestKilledNodeLeavesNothing(t *testing.T) {
	dir := filepath.Join(shortTempDir(t), "run")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	core := exec.Command(exe)
	core.Env = []string{roleEnv + "=core:" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := core.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	core.Stderr = os.Stderr
	if err := core.Start(); err != nil {
		t.Fatal(err)
	}
	defer core.Process.Kill()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	pids := numbers(t, fields)
	pids = append(pids, parent(t, pids[0])) // the guard
	if len(pids) != 4 || allGone(pids) || pids[3] == core.Process.Pid {
		t.Fatalf("pids %v", pids)
	}
	if err := core.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all processes are gone", func() bool { return allGone(pids) })
	_, _ = io.Copy(io.Discard, out)
	_ = core.Wait()
}

func TestStopEndsTheWholeFamily(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("family"))
	pids := family(t, n)
	pids = append(pids, parent(t, pids[0]))
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !allGone(pids) {
		t.Errorf("of %v some are alive", pids)
	}
	if left, err := os.ReadDir(n.cfg.SocketDir); err != nil || len(left) != 0 {
		t.Errorf("socket directory holds %v, %v", left, err)
	}
	if st := n.Status()[0]; st.State != StateStopped {
		t.Errorf("state %s", st.State)
	}
	if _, err := n.Call(t.Context(), helloCall()); code(asError(err)) != wire.CodeUnavailable {
		t.Errorf("call: %v", err)
	}
	if err := n.Start(t.Context(), agentSpec("reference")); !errors.Is(err, ErrStopped) {
		t.Errorf("start: %v", err)
	}
	if err := n.Restart(reference.ID); !errors.Is(err, ErrStopped) {
		t.Errorf("restart: %v", err)
	}
}

func TestKilledAgentTakesItsFamily(t *testing.T) {
	n := newNode(t, Config{})
	spec := agentSpec("family")
	spec.Restart.Never = true
	start(t, n, spec)
	pids := family(t, n)
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent is down", func() bool { return n.Status()[0].State == StateDown })
	if !allGone(pids) {
		t.Errorf("of %v some are alive", pids)
	}
}

func TestKilledGuardTakesTheAgent(t *testing.T) {
	n := newNode(t, Config{})
	spec := agentSpec("family")
	spec.Restart.Never = true
	start(t, n, spec)
	pids := family(t, n)
	if err := syscall.Kill(parent(t, pids[0]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "agent and group are gone", func() bool { return allGone(pids[:2]) })
	// Not guaranteed without its guard: what has left the group.
	_ = syscall.Kill(pids[2], syscall.SIGKILL)
	eventually(t, "the agent is down", func() bool { return n.Status()[0].State == StateDown })
}

func TestStubbornAgentIsKilled(t *testing.T) {
	requirements.Covers(t, "OSX-10")
	n := newNode(t, Config{StopGrace: 300 * time.Millisecond})
	start(t, n, agentSpec("stubborn"))
	pid := n.Status()[0].PID
	begin := time.Now()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 300*time.Millisecond || alive(pid) {
		t.Errorf("stopped after %s, alive %t", took, alive(pid))
	}
}

func TestStopInAHurry(t *testing.T) {
	n := newNode(t, Config{StopGrace: time.Minute})
	start(t, n, agentSpec("stubborn"))
	pid := n.Status()[0].PID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Stop(ctx); !errors.Is(err, context.Canceled) || alive(pid) {
		t.Errorf("stop: %v, alive %t", err, alive(pid))
	}
}

func TestRestarts(t *testing.T) {
	requirements.Covers(t, "OS-4.5.1.6")
	n := newNode(t, Config{})
	spec := agentSpec("crash")
	spec.Restart = RestartPolicy{Max: 2, MinBackoff: time.Millisecond}
	start(t, n, spec)
	eventually(t, "the agent stays down", func() bool { return n.Status()[0].State == StateDown })
	st := n.Status()[0]
	if st.Restarts != 2 || st.PID != 0 || len(st.Missing) != len(reference.ToolNames) || len(n.audited(auditDown)) != 1 {
		t.Errorf("status %+v", st)
	}
	if _, err := n.Call(t.Context(), helloCall()); code(asError(err)) != wire.CodeUnavailable || !strings.Contains(err.Error(), "down") {
		t.Errorf("call: %v", err)
	}
	if err := n.Restart(spec.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "down again", func() bool { return len(n.audited(auditDown)) == 2 })
	if st := n.Status()[0]; st.Restarts != 5 {
		t.Errorf("%d restarts after an operator's, want 5", st.Restarts)
	}
}

func TestMuteAgentIsReplaced(t *testing.T) {
	requirements.Covers(t, "OS-4.5.1.5", "OS-4.5.1.6")
	// It is unhealthy for four beats before it is replaced, which is time to see it.
	n := newNode(t, Config{HeartbeatInterval: 500 * time.Millisecond, StopGrace: 50 * time.Millisecond})
	spec := agentSpec("mute")
	spec.Restart.MinBackoff = time.Millisecond
	start(t, n, spec)
	first := n.Status()[0].PID
	eventually(t, "unhealthy", func() bool { return n.Status()[0].State == StateUnhealthy })
	if _, err := n.Call(t.Context(), helloCall()); code(asError(err)) != wire.CodeUnavailable || strings.Contains(err.Error(), "registered") {
		t.Errorf("call: %v", err)
	}
	eventually(t, "replaced", func() bool { pid := n.Status()[0].PID; return pid != 0 && pid != first })
	if alive(first) {
		t.Error("the mute process is alive")
	}
}
