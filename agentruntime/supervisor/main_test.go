package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
)

// roleEnv makes this test binary play an agent, or a whole node.
const roleEnv = "LIGHTWORK_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name, arg, _ := strings.Cut(role, ":")
	run, ok := roles[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "unknown role", role)
		return 2
	}
	if err := run(ctx, arg); err != nil {
		fmt.Fprintln(os.Stderr, "role", role, "ends:", err)
		return 1
	}
	return 0
}

// node is a supervisor under test, with what it has audited and logged.
type node struct {
	*Supervisor
	mu    sync.Mutex
	audit []AuditEvent
	lines []LogLine
}

func newNode(tb testing.TB, cfg Config) *node {
	tb.Helper()
	n := &node{}
	if cfg.SocketDir == "" {
		cfg.SocketDir = filepath.Join(shortTempDir(tb), "run")
	}
	_, bench := tb.(*testing.B)
	cfg.Audit = func(e AuditEvent) {
		if bench {
			return // the record would be most of what is measured
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.audit = append(n.audit, e)
	}
	cfg.OnLog = func(l LogLine) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.lines = append(n.lines, l)
	}
	var err error
	if n.Supervisor, err = New(cfg); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			tb.Errorf("stop: %v", err)
		}
		if tb.Failed() {
			for _, l := range n.logged() {
				tb.Log(l.Stream, l.Text)
			}
		}
	})
	return n
}

// shortTempDir is a temporary directory whose path leaves room for a socket.
func shortTempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sv")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (n *node) logged() []LogLine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]LogLine(nil), n.lines...)
}

func (n *node) audited(typ string) []AuditEvent {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []AuditEvent
	for _, e := range n.audit {
		if e.Type == typ {
			out = append(out, e)
		}
	}
	return out
}

// agentSpec is this test binary playing role.
func agentSpec(role string) Spec {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{
		ID: reference.ID, Version: reference.Version,
		Command: []string{exe}, Env: []string{roleEnv + "=" + role},
		Tools: reference.ToolNames[:],
	}
}

func start(tb testing.TB, n *node, spec Spec) {
	tb.Helper()
	if err := n.Start(tb.Context(), spec); err != nil {
		tb.Fatal(err)
	}
}

// patience bounds what a test waits for; it is never reached in a good run.
const patience = time.Minute

// eventually waits until cond holds.
func eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
