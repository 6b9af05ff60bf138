package supervisor

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
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
	eventually(t, "three refusals", func() bool { return len(n.audited(auditDenied)) == 3 })
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

// Whoever may open an agent's socket, a child of the agent say, and is turned away
// there, cannot fill the audit trail with that.
func TestRefusedConnectionsDoNotFillTheAuditTrail(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	socket := filepath.Join(n.cfg.SocketDir, n.Status()[0].RunID, socketName)
	for range 2 * maxProvokedLines {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil { // until it is closed: the line was written
			t.Fatal(err)
		}
		conn.Close()
	}
	if lines := n.audited(auditDenied); len(lines) != maxProvokedLines || !strings.HasSuffix(lines[maxProvokedLines-1].Reason, "are not written down") {
		t.Errorf("%d lines, the last is %+v", len(lines), lines[len(lines)-1])
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

func asError(err error) *Error {
	var e *Error
	errors.As(err, &e)
	return e
}
