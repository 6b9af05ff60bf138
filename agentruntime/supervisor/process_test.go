package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func allGone(pids []int) bool {
	for _, pid := range pids {
		if alive(pid) {
			return false
		}
	}
	return true
}

func numbers(t *testing.T, fields []string) []int {
	t.Helper()
	var out []int
	for _, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// family is the pids that the role "family" printed, and its guard's.
func family(t *testing.T, n *node) []int {
	t.Helper()
	var pids []int
	eventually(t, "family prints its pids", func() bool {
		for _, l := range n.logged() {
			if list, ok := strings.CutPrefix(l.Text, "pids "); ok {
				pids = numbers(t, strings.Fields(list))
			}
		}
		return len(pids) == 3
	})
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %d is not alive", pid)
		}
	}
	return pids
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return numbers(t, strings.Fields(rest)[1:2])[0]
}

func TestAgentIsAProcess(t *testing.T) {
	requirements.Covers(t, "OS-0.5", "OS-0.7", "OS-5.2.1", "OS-5.2.2", "OS-5.2.3", "OS-5.1.2", "OS-5.3.1", "OSX-1")
	t.Setenv("CANARY_OF_THE_NODE", "1")
	n := newNode(t, Config{})
	spec := agentSpec("show")
	spec.Env = append(spec.Env, "EXPLICIT=yes")
	start(t, n, spec)
	st := n.Status()[0]
	if st.PID == os.Getpid() || !alive(st.PID) {
		t.Errorf("agent pid is %d", st.PID)
	}
	eventually(t, "the agent prints its last line", func() bool {
		return strings.Contains(fmt.Sprint(n.logged()), "after connecting: false") && strings.Contains(fmt.Sprint(n.logged()), "pgid true")
	})
	seen := map[string]string{}
	for _, l := range n.logged() {
		if kv, ok := strings.CutPrefix(l.Text, "env "); ok {
			name, value, _ := strings.Cut(kv, "=")
			seen[name] = value
		} else if strings.HasPrefix(l.Text, "cmdline") && strings.Contains(l.Text, redacted) {
			t.Error("the token is on the command line")
		}
	}
	for name, want := range map[string]string{
		"PATH": os.Getenv("PATH"), "EXPLICIT": "yes", roleEnv: "show", "OPENSENTIENCE_AGENT_ID": reference.ID,
		"OPENSENTIENCE_SESSION_TOKEN": redacted, "OPENSENTIENCE_RUN_ID": st.RunID, "OPENSENTIENCE_INSTALL_PATH": "",
		"OPENSENTIENCE_SOCKET_PATH": filepath.Join(n.cfg.SocketDir, st.RunID, "s"), "OPENSENTIENCE_HEARTBEAT_INTERVAL_MS": "5000",
	} {
		if got, ok := seen[name]; !ok || got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("the agent inherits %v", seen)
	}
}

func TestWaysInAreClosed(t *testing.T) {
	requirements.Covers(t, "OS-5.1.4", "OS-4.1.2.7", "OS-5.3.2", "OS-0.8")
	n := newNode(t, Config{})
	start(t, n, agentSpec("impostor"))
	eventually(t, "three refusals", func() bool { return len(n.audited(AuditDenied)) == 3 })
	var got []string
	eventually(t, "three lines", func() bool {
		got = nil
		for _, l := range n.logged() {
			got = append(got, l.Text)
		}
		return len(got) == 3
	})
	for i, who := range []string{"wrong token", "stranger", "used token"} {
		if want := who + " gets core.welcome protocol.unauthorized then true"; got[i] != want {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
	if r, err := n.Call(t.Context(), helloCall()); err != nil {
		t.Errorf("the session of the right process: %v %v", r, err)
	}
}

func TestTokenIsInNoLog(t *testing.T) {
	requirements.Covers(t, "OS-4.1.1.9", "OS-5.1.2")
	for _, role := range []string{"reference", "impostor", "mute"} {
		var mu sync.Mutex
		var out strings.Builder
		write := func(v any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&out, "%+v\n", v)
		}
		s, err := New(Config{
			SocketDir: filepath.Join(shortTempDir(t), "run"), StopGrace: 50 * time.Millisecond,
			Audit: func(e AuditEvent) { write(e) }, OnLog: func(l LogLine) { write(l) },
			Log: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) { write(string(p)) }), &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), agentSpec(role)); err != nil {
			t.Fatal(err)
		}
		w := s.workers[reference.ID]
		w.mu.Lock()
		secret := w.run.token.secret
		w.mu.Unlock()
		_, _ = s.Call(t.Context(), helloCall())
		write(s.Status())
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); text == "" || strings.Contains(text, secret) {
			t.Errorf("%s: the token is in the logs:\n%s", role, text)
		}
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestNoTCPListener(t *testing.T) {
	requirements.Covers(t, "OS-1.1.3", "OS-0.10")
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	for _, pid := range []int{os.Getpid(), n.Status()[0].PID} {
		if listening := tcpListeners(t, pid); len(listening) > 0 {
			t.Errorf("process %d listens on %v", pid, listening)
		}
	}
}

// tcpListeners are the local addresses, as the kernel writes them, on which a
// process listens.
func tcpListeners(t *testing.T, pid int) []string {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("read descriptors of %d: %v", pid, err)
	}
	own := map[string]bool{}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
			own[strings.Trim(target, "socket:[]")] = true
		}
	}
	var found []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n") {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && own[f[9]] {
				found = append(found, f[1])
			}
		}
	}
	return found
}

func helloCall() Call {
	return Call{AgentID: reference.ID, Tool: "hello_world", Input: []byte(`{"name":"Ada"}`)}
}

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
	killed := time.Now()
	eventually(t, "all processes are gone", func() bool { return allGone(pids) })
	if d := time.Since(killed); d > 2*time.Second {
		t.Errorf("it took %s", d)
	}
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

func asError(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
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

func TestStartFails(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		spec func() Spec
		want error
	}{
		{"no such program", Config{}, func() Spec { s := agentSpec(""); s.Command = []string{"/none"}; return s }, os.ErrNotExist},
		{"not executable", Config{}, func() Spec { s := agentSpec(""); s.Command = []string{"/etc/passwd"}; return s }, os.ErrPermission},
		{"no such directory", Config{}, func() Spec { s := agentSpec("reference"); s.Dir = "/none"; return s }, nil},
		{"exits", Config{}, func() Spec { return agentSpec("exit") }, errExited},
		{"says nothing", Config{HandshakeTimeout: 300 * time.Millisecond}, func() Spec { return agentSpec("silent") }, errHandshakeTimeout},
		{"expired token", Config{TokenTTL: 1, HandshakeTimeout: 5 * time.Second}, func() Spec { return agentSpec("reference") }, errExited},
		{"other version", Config{}, func() Spec { s := agentSpec("reference"); s.Version = "2.0.0"; return s }, errExited},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, tt.cfg)
			err := n.Start(t.Context(), tt.spec())
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if len(n.Status()) != 0 {
				t.Errorf("left %v", n.Status())
			}
			if left, err := os.ReadDir(n.cfg.SocketDir); err != nil || len(left) != 0 {
				t.Errorf("socket directory holds %v, %v", left, err)
			}
		})
	}
}

func TestStartTwiceAndCanceled(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	if err := n.Start(t.Context(), agentSpec("reference")); !errors.Is(err, ErrExists) {
		t.Errorf("second start: %v", err)
	}
	other := agentSpec("silent")
	other.ID = "com.example.silent"
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := n.Start(ctx, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("canceled start: %v", err)
	}
	if err := n.Restart("nobody"); !errors.Is(err, ErrNoAgent) {
		t.Errorf("restart: %v", err)
	}
}

func TestAnotherUser(t *testing.T) {
	requirements.Covers(t, "OS-1.1.2")
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	// The test binary is in a directory that only we can enter.
	dir, err := os.MkdirTemp("/tmp", "lw")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	spec := agentSpec("reference")
	binary, err := os.ReadFile(spec.Command[0])
	if err != nil {
		t.Fatal(err)
	}
	spec.Command[0] = filepath.Join(dir, "agent")
	if err := os.WriteFile(spec.Command[0], binary, 0o755); err != nil {
		t.Fatal(err)
	}
	spec.UID, spec.GID, spec.Dir = 65534, 65534, "/"
	n := newNode(t, Config{SocketDir: filepath.Join(dir, "run")})
	start(t, n, spec)
	if _, err := n.Call(t.Context(), helloCall()); err != nil {
		t.Error(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Status()[0].PID))
	if err != nil || !strings.Contains(string(status), "Uid:\t65534\t65534\t65534\t65534") || !strings.Contains(string(status), "Groups:\t \n") {
		t.Errorf("the agent runs as %v\n%s", err, status)
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
	if st.Restarts != 2 || st.PID != 0 || len(st.Missing) != len(reference.ToolNames) || len(n.audited(AuditDown)) != 1 {
		t.Errorf("status %+v", st)
	}
	if _, err := n.Call(t.Context(), helloCall()); code(asError(err)) != wire.CodeUnavailable || !strings.Contains(err.Error(), "down") {
		t.Errorf("call: %v", err)
	}
	if err := n.Restart(spec.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "down again", func() bool { return len(n.audited(AuditDown)) == 2 })
	if st := n.Status()[0]; st.Restarts != 5 {
		t.Errorf("%d restarts after an operator's, want 5", st.Restarts)
	}
}

func TestMuteAgentIsReplaced(t *testing.T) {
	requirements.Covers(t, "OS-4.5.1.5", "OS-4.5.1.6")
	n := newNode(t, Config{HeartbeatInterval: 50 * time.Millisecond, StopGrace: 50 * time.Millisecond})
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
