package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

// The test program plays three more parts: the supervisor's guard, the agent,
// and the MCP servers that the agent hosts.
const (
	agentArgument  = "mcp-agent"
	serverArgument = "mcp-server"

	agentID = "com.example.mcp"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 {
		switch os.Args[1] {
		case agentArgument:
			os.Exit(playAgent(os.Args[2:]))
		case serverArgument:
			os.Exit(playServer(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

func playAgent(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := ParseArgs(args)
	if err == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		err = Main(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent ends:", err)
		return 1
	}
	return 0
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// node runs the agent under a supervisor, as the node does.
type node struct {
	*supervisor.Supervisor
	dir string // the agent's working directory

	mu    sync.Mutex
	lines []string
}

// start launches the agent for one of the servers that this program plays.
// tools are the routes to it.
func start(t *testing.T, server string, tools ...string) (*node, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	n := &node{dir: filepath.Join(dir, "w")}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	n.Supervisor, err = supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(dir, "s"),
		OnLog: func(l supervisor.LogLine) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lines = append(n.lines, l.Text)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
		if log := n.log(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
			t.Error("the agent is broken")
		}
		if t.Failed() {
			t.Log(n.log())
		}
	})
	return n, n.Start(t.Context(), supervisor.Spec{
		ID: agentID, Version: Version, Dir: n.dir, Tools: tools,
		Command: []string{self(t), agentArgument, "--env", "PASSED", "--", self(t), serverArgument, server},
		Env:     []string{"PASSED=yes", "KEPT=canary"},
		Restart: supervisor.RestartPolicy{Max: 3},
	})
}

// serve is start for servers that come up.
func serve(t *testing.T, server string, tools ...string) *node {
	t.Helper()
	n, err := start(t, server, tools...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

func (n *node) call(t *testing.T, tool, input string) (json.RawMessage, error) {
	t.Helper()
	r, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: tool, Input: json.RawMessage(input), Timeout: time.Minute})
	return r.Output, err
}

// must calls a tool and decodes its output into v.
func (n *node) must(t *testing.T, tool, input string, v any) {
	t.Helper()
	out, err := n.call(t, tool, input)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
}

// text calls a tool whose output is one text.
func (n *node) text(t *testing.T, tool, input string) string {
	t.Helper()
	var out struct {
		Content []struct{ Type, Text string }
	}
	n.must(t, tool, input, &out)
	if len(out.Content) != 1 || out.Content[0].Type != "text" {
		t.Fatalf("%s: content %+v", tool, out.Content)
	}
	return out.Content[0].Text
}

// failure is the error of a call that must fail.
func (n *node) failure(t *testing.T, tool, input string) *supervisor.Error {
	t.Helper()
	out, err := n.call(t, tool, input)
	var e *supervisor.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: output %.300s, err %v", tool, out, err)
	}
	return e
}

// eventually waits until cond holds, or fails after a minute.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
