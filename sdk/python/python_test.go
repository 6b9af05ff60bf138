// Package python_test runs the tests of the Python SDK and puts its reference
// agent under a real supervisor.
package python_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// interpreter is the path of python3 itself: what PATH holds may be a wrapper
// that needs more of the environment than an agent gets.
func interpreter(t *testing.T) string {
	t.Helper()
	testclass.Require(t, "python3")
	out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatalf("ask python3 for its path: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func TestPythonTests(t *testing.T) {
	requirements.Covers(t, "OS-2.2.3", "OS-3.1.7", "OS-4.3.1.6", "OS-4.4.2.2", "OS-6.2.2", "OS-6.2.3")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter(t), "-B", "-W", "error", "-m", "unittest")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "Ran 0 tests") {
		t.Errorf("python3 -m unittest: %v\n%s", err, out)
	}
}

// node is a supervisor that runs the reference agent as its manifest says.
type node struct {
	*supervisor.Supervisor
	mu    sync.Mutex
	audit []supervisor.AuditEvent
	lines []string
}

func startReference(t *testing.T) *node {
	t.Helper()
	python := interpreter(t)
	folder, err := filepath.Abs("reference")
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Read(filepath.Join(folder, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != reference.ID || m.Version != reference.Version || m.Command()[0] != "python3" {
		t.Fatalf("manifest %+v", m)
	}
	dir, err := os.MkdirTemp("", "py") // short: its path leads to a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{}
	n.Supervisor, err = supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(dir, "run"), MaxFrameBytes: 1 << 20,
		HeartbeatInterval: time.Second, CancelGrace: 10 * time.Second, Audit: n.record, OnLog: n.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.end(t) })
	script := filepath.Join(folder, m.Command()[1])
	err = n.Start(t.Context(), supervisor.Spec{
		ID: m.ID, Version: m.Version, Tools: reference.InEveryLanguage, Dir: dir,
		Command: []string{python, "-B", script},
	})
	if err != nil {
		t.Fatalf("start: %v\n%s", err, strings.Join(n.lines, "\n"))
	}
	return n
}

func (n *node) record(e supervisor.AuditEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.audit = append(n.audit, e)
}

func (n *node) log(l supervisor.LogLine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, l.Text)
}

// end stops the agent and fails the test if it broke the protocol.
func (n *node) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.audit {
		if e.Type == supervisor.AuditViolation {
			t.Errorf("violation: %+v", e)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(n.lines, "\n"))
	}
}

func (n *node) call(ctx context.Context, tool, input string, onStream func(supervisor.Chunk)) (supervisor.Result, string) {
	r, err := n.Call(ctx, supervisor.Call{AgentID: reference.ID, Tool: tool, Input: []byte(input), OnStream: onStream})
	var failure *supervisor.Error
	if errors.As(err, &failure) {
		return r, failure.Code
	}
	return r, ""
}

func TestReferenceAgent(t *testing.T) {
	requirements.Covers(t, "OSX-18")
	n := startReference(t)
	if st := n.Status()[0]; len(st.Missing) != 0 || len(st.Tools) != len(reference.InEveryLanguage) {
		t.Fatalf("status %+v", st)
	}
	t.Run("same tools as in Go", n.testSameTools)
	for _, tt := range []struct{ tool, input, output, code string }{
		{"hello_world", `{"name":"Ada €"}`, `{"greeting":"Hello, Ada €!"}`, ""},
		{"hello_world", `{}`, `{"greeting":"Hello, world!"}`, ""},
		{"hello_world", `{"name":""}`, ``, wire.CodeInvalidInput},
		{"stream_counter", `{"count":3}`, `{"count":3}`, ""},
		{"sleep", `{"ms":1}`, `{"slept_ms":1}`, ""},
		{"sleep", `{"ms":"1"}`, ``, wire.CodeInvalidInput},
		{"invalid_input", `{"any":"thing"}`, ``, wire.CodeInvalidInput},
		{"large_output", `{"bytes":3}`, `{"text":"xxx"}`, ""},
		{"large_output", `{"bytes":1048576}`, ``, wire.CodeOutputTooLarge},
	} {
		r, code := n.call(t.Context(), tt.tool, tt.input, nil)
		if string(r.Output) != tt.output || code != tt.code {
			t.Errorf("%s(%s): %s, %q", tt.tool, tt.input, r.Output, code)
		}
	}
	t.Run("large output", n.testLargeOutput)
	t.Run("stream", n.testStream)
	t.Run("cancel", n.testCancel)
	t.Run("timeout", n.testTimeout)
	t.Run("concurrent", n.testConcurrent)
}

// testSameTools compares what the agent registered with the Go agent's tools.
func (n *node) testSameTools(t *testing.T) {
	got, err := n.Tools(reference.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range reference.Tools()[:len(reference.InEveryLanguage)] {
		i := slices.IndexFunc(got, func(g supervisor.ToolInfo) bool { return g.Name == want.Name })
		if i < 0 || got[i].Description != want.Description {
			t.Errorf("%s: %+v", want.Name, got)
			continue
		}
		in := want.InputSchema
		if in == nil {
			in = json.RawMessage(`{"type":"object"}`)
		}
		if canonical(t, got[i].InputSchema) != canonical(t, in) {
			t.Errorf("%s: input schema %s, want %s", want.Name, got[i].InputSchema, in)
		}
	}
}

func canonical(t *testing.T, doc []byte) string {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return fmt.Sprint(v)
}

func (n *node) testLargeOutput(t *testing.T) {
	r, code := n.call(t.Context(), "large_output", `{"bytes":1000000}`, nil)
	if code != "" || len(r.Output) != len(`{"text":""}`)+1_000_000 {
		t.Errorf("in the frame: %d bytes, %q", len(r.Output), code)
	}
	r, code = n.call(t.Context(), "large_output", `{"bytes":5000000,"as_file":true}`, nil)
	var out struct {
		Path  string
		Bytes int
	}
	if err := json.Unmarshal(r.Output, &out); err != nil || code != "" || out.Bytes != 5_000_000 || !strings.HasPrefix(out.Path, "./output-") {
		t.Errorf("as file: %s, %q, %v", r.Output, code, err)
	}
}

func (n *node) testStream(t *testing.T) {
	var text strings.Builder
	var last supervisor.Chunk
	r, code := n.call(t.Context(), "stream_counter", `{"count":100}`, func(c supervisor.Chunk) {
		text.WriteString(c.Text)
		last = c
	})
	if code != "" || r.Stream != (supervisor.StreamStats{Delivered: 101}) || last.Seq != 101 || !last.Done {
		t.Errorf("%q, %+v, last %+v", code, r.Stream, last)
	}
	if !strings.HasPrefix(text.String(), "1\n2\n3\n") || !strings.HasSuffix(text.String(), "\n99\n100\n") {
		t.Errorf("streamed %q", text.String())
	}
}

// testCancel cancels at the first chunk; the grace of ten seconds would show
// in the code if the agent did not answer.
func (n *node) testCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, code := n.call(ctx, "stream_counter", `{"count":100000,"interval_ms":60000}`, func(supervisor.Chunk) { cancel() })
	if code != wire.CodeCanceled {
		t.Errorf("code %q", code)
	}
}

func (n *node) testTimeout(t *testing.T) {
	_, err := n.Call(t.Context(), supervisor.Call{
		AgentID: reference.ID, Tool: "sleep", Input: []byte(`{"ms":3600000}`), Timeout: 50 * time.Millisecond,
	})
	var failure *supervisor.Error
	if !errors.As(err, &failure) || failure.Code != wire.CodeTimeout {
		t.Errorf("%v", err)
	}
}

func (n *node) testConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			name := fmt.Sprintf("caller %d", i)
			r, code := n.call(t.Context(), "hello_world", fmt.Sprintf(`{"name":%q}`, name), nil)
			if want := fmt.Sprintf(`{"greeting":"Hello, %s!"}`, name); code != "" || string(r.Output) != want {
				t.Errorf("%s: %s, %q", name, r.Output, code)
			}
		})
		wg.Go(func() {
			if r, code := n.call(t.Context(), "sleep", `{"ms":100}`, nil); code != "" || string(r.Output) != `{"slept_ms":100}` {
				t.Errorf("sleep: %s, %q", r.Output, code)
			}
		})
	}
	wg.Wait()
}
