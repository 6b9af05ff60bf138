package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// refCall calls a tool of the agent that the tests launch.
func refCall(n *node, tool, input string) (Result, *Error) {
	r, err := n.Call(context.Background(), Call{AgentID: reference.ID, Tool: tool, Input: []byte(input)})
	return r, asError(err)
}

func toolsSpec() Spec {
	spec := agentSpec("tools")
	spec.Tools = append(slices.Clone(spec.Tools), "count", "panic", "deaf", "die", "leak", "echo", "keeper")
	return spec
}

func TestReferenceTools(t *testing.T) {
	requirements.Covers(t, "OSX-18", "OS-4.3.1.10", "OS-7.3.1", "OS-7.3.2", "OS-0.6")
	dir := t.TempDir()
	spec := agentSpec("reference")
	spec.Dir = dir
	n := newNode(t, Config{MaxFrameBytes: 1 << 20})
	start(t, n, spec)
	tests := []struct{ tool, input, output, code string }{
		{"hello_world", `{"name":"Ada"}`, `{"greeting":"Hello, Ada!"}`, ""},
		{"hello_world", `{}`, `{"greeting":"Hello, world!"}`, ""},
		{"hello_world", `{"name":""}`, ``, wire.CodeInvalidInput},
		{"stream_counter", `{"count":3}`, `{"count":3}`, ""},
		{"stream_counter", `{"count":-1}`, ``, wire.CodeInvalidInput},
		{"sleep", `{"ms":1}`, `{"slept_ms":1}`, ""},
		{"sleep", `{"ms":"1"}`, ``, wire.CodeInvalidInput},
		{"invalid_input", `{"any":"thing"}`, ``, wire.CodeInvalidInput},
		{"large_output", `{"bytes":3}`, `{"text":"xxx"}`, ""},
		{"large_output", `{"bytes":1048576}`, ``, wire.CodeOutputTooLarge},
	}
	for _, tt := range tests {
		r, err := refCall(n, tt.tool, tt.input)
		if string(r.Output) != tt.output || code(err) != tt.code {
			t.Errorf("%s(%s): %s, %v", tt.tool, tt.input, r.Output, err)
		}
	}
	r, err := refCall(n, "large_output", `{"bytes":5000000,"as_file":true}`)
	files, globErr := filepath.Glob(filepath.Join(dir, "output-*.txt"))
	if err != nil || globErr != nil || len(files) != 1 || !strings.Contains(string(r.Output), filepath.Base(files[0])) {
		t.Fatalf("as file: %s, %v, %v", r.Output, err, files)
	}
	if st, err := os.Stat(files[0]); err != nil || st.Size() != 5_000_000 {
		t.Errorf("file: %v, %v", st, err)
	}
}

func TestStreamedCall(t *testing.T) {
	requirements.Covers(t, "OS-4.3.2.1", "OS-4.3.2.7")
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	var got strings.Builder
	var last Chunk
	r, err := n.Call(t.Context(), Call{
		AgentID: reference.ID, Tool: "stream_counter", Input: []byte(`{"count":100}`),
		OnStream: func(c Chunk) { got.WriteString(c.Text); last = c },
	})
	if err != nil || r.Stream != (StreamStats{Delivered: 101}) || last.Seq != 101 || !last.Done {
		t.Fatalf("%v, %+v, last %+v", err, r.Stream, last)
	}
	if !strings.HasPrefix(got.String(), "1\n2\n3\n") || !strings.HasSuffix(got.String(), "\n99\n100\n") {
		t.Errorf("streamed %q", got.String())
	}
}

func TestMisbehavingTools(t *testing.T) {
	requirements.Covers(t, "OS-7.4.1", "OS-7.2.1")
	n := newNode(t, Config{})
	start(t, n, toolsSpec())
	_, err := refCall(n, "panic", `{}`)
	if code(err) != wire.CodeInternal || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("panic: %v", err)
	}
	if _, err := refCall(n, "leak", `{}`); code(err) != wire.CodePolicyViolation {
		t.Errorf("leak: %v", err)
	}
	if _, err := refCall(n, "hello_world", `{}`); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestSecretInAnInputIsFlagged: whoever sends one is not served in silence. What the
// tool's schema marks as a secret is no such thing.
func TestSecretInAnInputIsFlagged(t *testing.T) {
	requirements.Covers(t, "OS-7.2.1")
	n := newNode(t, Config{})
	start(t, n, toolsSpec())
	for input, flagged := range map[string]bool{
		`{"note":"a quiet day, 12 tokens"}`:                                   false,
		`{"note":"password: hunter2hunter2"}`:                                 true,
		`{"note":"\u0070assword: hunter2hunter2"}`:                            true,
		`{"deep":[{"api_key":"0123456789abcdef"}]}`:                           true,
		`{"note":"` + strings.Repeat("x ", 100<<10) + `token=abcdef0123456"}`: true,
		`{"password":"hunter2hunter2"}`:                                       false,
	} {
		before := len(n.audited(auditSecretSuspected))
		r, err := refCall(n, "keeper", input)
		if err != nil || r.Output == nil {
			t.Fatalf("%.60s: %v", input, err)
		}
		lines := n.audited(auditSecretSuspected)[before:]
		if len(lines) > 0 != flagged {
			t.Errorf("%.60s: %+v", input, lines)
		}
		for _, line := range lines {
			if line.Tool != "keeper" || line.CallID == "" || strings.Contains(line.Reason, "hunter2") {
				t.Errorf("%.60s: %+v", input, line)
			}
		}
	}
}

func TestOnlyDeclaredToolsHaveARoute(t *testing.T) {
	requirements.Covers(t, "K-2", "OS-0.1")
	n := newNode(t, Config{})
	spec := toolsSpec()
	spec.Tools = append(spec.Tools, "promised")
	start(t, n, spec)
	for tool, want := range map[string]string{
		"undeclared": wire.CodeRouteNotFound, reference.ID + "/count": wire.CodeRouteNotFound, "": wire.CodeRouteNotFound,
		"promised": wire.CodeUnavailable, "count": "",
	} {
		if _, err := refCall(n, tool, `{}`); code(err) != want {
			t.Errorf("%q: %v, want %q", tool, err, want)
		}
	}
	if _, err := n.Call(t.Context(), Call{AgentID: "nobody", Tool: "count"}); code(asError(err)) != wire.CodeRouteNotFound {
		t.Errorf("unknown agent: %v", err)
	}
	if st := n.Status()[0]; !slices.Equal(st.Missing, []string{"promised"}) || slices.Contains(st.Tools, "undeclared") {
		t.Errorf("status %+v", st)
	}
}

func TestEchoedFields(t *testing.T) {
	requirements.Covers(t, "OS-3.1.7")
	n := newNode(t, Config{})
	start(t, n, toolsSpec())
	r, err := n.Call(t.Context(), Call{
		AgentID: reference.ID, Tool: "echo", Input: []byte(`{}`), RequestID: "r", CorrelationID: "c", CausationID: "d",
		OnStream: func(Chunk) {},
	})
	if err != nil || string(r.Output) != `{"c":"c","d":"d","r":"r"}` || r.Stream.Delivered != 2 {
		t.Errorf("%s, %+v, %v", r.Output, r.Stream, err)
	}
	if v := n.audited(AuditViolation); len(v) != 0 {
		t.Errorf("audit %+v", v)
	}
}

func TestIdempotencyKey(t *testing.T) {
	requirements.Covers(t, "OS-4.3.1.6")
	n := newNode(t, Config{})
	start(t, n, toolsSpec())
	count := func(key, input string) (string, *Error) {
		r, err := n.Call(t.Context(), Call{AgentID: reference.ID, Tool: "count", Input: []byte(input), IdempotencyKey: key})
		return string(r.Output), asError(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := count("k", `{}`); err != nil || got != `{"n":1}` {
				t.Errorf("same key: %s, %v", got, err)
			}
		})
	}
	wg.Wait()
	if got, err := count("", `{}`); err != nil || got != `{"n":2}` {
		t.Errorf("no key: %s, %v", got, err)
	}
	if _, err := count("k", `{"other":1}`); code(err) != wire.CodeInvalidInput {
		t.Errorf("same key, other input: %v", err)
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	requirements.Covers(t, "OS-4.4.1.4", "OS-4.3.3.9")
	n := newNode(t, Config{CancelGrace: patience})
	start(t, n, agentSpec("reference"))
	ctx, cancel := context.WithCancel(t.Context())
	begin := time.Now()
	_, err := n.Call(ctx, Call{AgentID: reference.ID, Tool: "stream_counter", Input: []byte(`{"count":100000,"interval_ms":1}`), OnStream: func(Chunk) { cancel() }})
	if code(asError(err)) != wire.CodeCanceled || !errors.Is(err, context.Canceled) || time.Since(begin) >= patience {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
	_, err = n.Call(t.Context(), Call{AgentID: reference.ID, Tool: "sleep", Input: []byte(`{"ms":60000}`), Timeout: 50 * time.Millisecond})
	if code(asError(err)) != wire.CodeTimeout {
		t.Errorf("timeout: %v", err)
	}
	if st := n.Status()[0]; st.Inflight != 0 || st.Abandoned != 0 {
		t.Errorf("left in flight: %+v", st)
	}
}

func TestRunawayToolIsEnded(t *testing.T) {
	n := newNode(t, Config{})
	spec := toolsSpec()
	spec.Limits.KillRunaway = true
	spec.Restart.MinBackoff = time.Millisecond
	start(t, n, spec)
	pid := n.Status()[0].PID
	_, err := n.Call(t.Context(), Call{AgentID: reference.ID, Tool: "deaf", Input: []byte(`{}`), Timeout: 100 * time.Millisecond})
	if code(asError(err)) != wire.CodeTimeout {
		t.Errorf("runaway: %v", err)
	}
	eventually(t, "the runaway is gone", func() bool { return !alive(pid) })
	eventually(t, "its successor works", func() bool { _, err := refCall(n, "hello_world", `{}`); return err == nil })
}

func TestAgentDiesInACall(t *testing.T) {
	requirements.Covers(t, "M-16")
	n := newNode(t, Config{})
	spec := toolsSpec()
	spec.Restart.MinBackoff = time.Millisecond
	start(t, n, spec)
	for _, key := range []string{"", "k"} {
		_, err := n.Call(t.Context(), Call{AgentID: reference.ID, Tool: "die", Input: []byte(`{}`), IdempotencyKey: key})
		if e := asError(err); code(e) != wire.CodeUnavailable || e.Retryable != (key != "") {
			t.Errorf("key %q: %v", key, err)
		}
		eventually(t, "the agent is back", func() bool { _, err := refCall(n, "hello_world", `{}`); return err == nil })
	}
	if got := n.Status()[0].Restarts; got != 2 {
		t.Errorf("%d restarts, want 2", got)
	}
}

func TestRestartByAnOperator(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	pid := n.Status()[0].PID
	if err := n.Restart(reference.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process works", func() bool {
		_, err := refCall(n, "hello_world", `{}`)
		st := n.Status()[0]
		return err == nil && st.PID != 0 && st.PID != pid
	})
	if alive(pid) || len(n.audited(auditRunCrashed)) != 0 {
		t.Errorf("old process alive %t, crashes %v", alive(pid), n.audited(auditRunCrashed))
	}
}

func TestFullHouse(t *testing.T) {
	requirements.Covers(t, "OS-2.2.5", "OS-2.3.2", "PT-4")
	const seats = 256
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	unread := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := n.Call(t.Context(), Call{
			AgentID: reference.ID, Tool: "stream_counter", Input: []byte(`{"count":20000}`), Timeout: time.Minute,
			OnStream: func(Chunk) { <-unread },
		})
		if err != nil || r.Stream.Delivered+r.Stream.Dropped != 20001 || r.Stream.Dropped == 0 {
			t.Errorf("unread stream: %v, %+v", err, r.Stream)
		}
	})
	// The agent ends its part, though nobody reads what it streamed.
	eventually(t, "the stream is sent", func() bool { return len(n.audited(auditCallRouted)) == 1 && n.Status()[0].Inflight == 0 })
	ctx, cancel := context.WithCancel(t.Context())
	for range seats {
		wg.Go(func() {
			_, err := n.Call(ctx, Call{AgentID: reference.ID, Tool: "sleep", Input: []byte(`{"ms":600000}`), Timeout: time.Hour})
			if code(asError(err)) != wire.CodeCanceled {
				t.Errorf("sleeper: %v", err)
			}
		})
	}
	eventually(t, "all places are taken", func() bool { return n.Status()[0].Inflight == seats })
	// The agent has the same limit; this one is the supervisor's own.
	if _, err := refCall(n, "hello_world", `{}`); code(err) != wire.CodeOverloaded || !err.Retryable || err.FromAgent {
		t.Errorf("one too many: %+v", err)
	}
	cancel()
	close(unread)
	wg.Wait()
	if _, err := refCall(n, "hello_world", `{}`); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestBusyConnection(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, agentSpec("reference"))
	var wg sync.WaitGroup
	for i := range 128 {
		wg.Go(func() {
			for j := range 10 {
				r, err := refCall(n, "hello_world", fmt.Sprintf(`{"name":"%d-%d"}`, i, j))
				if err != nil || string(r.Output) != fmt.Sprintf(`{"greeting":"Hello, %d-%d!"}`, i, j) {
					t.Errorf("%d-%d: %s, %v", i, j, r.Output, err)
				}
			}
		})
	}
	wg.Wait()
}
