// Package mcp_test runs unmodified MCP servers under the node's supervisor,
// through the agent that hosts them. package-lock.json pins the servers; npm
// installs them into node_modules, once.
package mcp_test

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

	"github.com/lightwork-market/lightwork/interop/outside"

	"github.com/lightwork-market/lightwork/agentruntime/agents/mcp"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

const (
	agentArgument = "mcp-agent"
	agentID       = "com.example.mcp"
)

// TestMain makes this program play the agent, too.
func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == agentArgument {
		os.Exit(playAgent(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func playAgent(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := mcp.ParseArgs(args)
	if err == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		err = mcp.Main(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent ends:", err)
		return 1
	}
	return 0
}

// node runs one server under a supervisor.
type node struct {
	*supervisor.Supervisor
	dir string // the server's working directory

	mu    sync.Mutex
	lines []string
}

// serve starts the package's program with node. tools are the routes to it.
func serve(t *testing.T, pkg string, args []string, tools ...string) *node {
	t.Helper()
	outside.Install(t, ".")
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	n := &node{dir: t.TempDir()}
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
		if t.Failed() {
			t.Log(n.log())
		}
	})
	program := filepath.Join(modules, "@modelcontextprotocol", pkg, "dist", "index.js")
	err = n.Start(t.Context(), supervisor.Spec{
		ID: agentID, Version: mcp.Version, Dir: n.dir, Tools: tools,
		Command: append([]string{self, agentArgument, "--env", "MEMORY_FILE_PATH", "--", "node", program}, args...),
		Env:     []string{"MEMORY_FILE_PATH=" + filepath.Join(n.dir, "memory.jsonl"), "KEPT=canary"},
		Restart: supervisor.RestartPolicy{Never: true},
	})
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

func (n *node) call(t *testing.T, tool string, input any) (json.RawMessage, error) {
	t.Helper()
	doc, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.Call(t.Context(), supervisor.Call{AgentID: agentID, Tool: tool, Input: doc, Timeout: 30 * time.Second})
	return r.Output, err
}

// must calls a tool and decodes its output into v.
func (n *node) must(t *testing.T, tool string, input, v any) {
	t.Helper()
	out, err := n.call(t, tool, input)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
}

// failure is the error of a call that must fail.
func (n *node) failure(t *testing.T, tool string, input any) *supervisor.Error {
	t.Helper()
	out, err := n.call(t, tool, input)
	var e *supervisor.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: output %.300s, err %v", tool, out, err)
	}
	return e
}

// content is the output of a tool that promises no shape.
type content struct {
	Content []struct {
		Type, Text, MIMEType, Data, URI string
	}
}
