package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const asAgent = "HOST_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		fmt.Fprintln(os.Stderr, "hello, password=hunter2 session_id=7")
		tools := append(reference.Tools(), agent.Tool{
			Name: "risky", RequiresDirective: true,
			Handler: func(_ context.Context, c *agent.Call) (any, error) {
				return map[string]string{"because": c.CausationID}, c.Stream(wire.Log, "token: abcdef123456")
			},
		}, steerTool())
		if os.Getenv(asAgent) == "reach" {
			tools = []agent.Tool{{Name: "reach", Handler: func(_ context.Context, c *agent.Call) (any, error) {
				var at struct{ Dir, TCP string }
				err := json.Unmarshal(c.Input, &at)
				return reached(at.Dir, at.TCP), err
			}}}
		}
		if err := agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: tools}); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const id = "com.example.ref"

// install writes the folder of an agent that is this test binary.
func install(t *testing.T, dir, description string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(map[string]any{
		"id": id, "name": "Reference", "version": "1.0.0", "description": description,
		"source":      map[string]string{"git_url": "https://git.example.com/ref"},
		"entrypoint":  map[string]string{"type": "command", "value": exe},
		"permissions": []string{}, "capabilities": []string{"tools"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifest.FileName), doc, 0o600); err != nil {
		t.Fatal(err)
	}
}

// world is a host with one installed agent.
type world struct {
	*Host
	dir       string // the agent's
	logs      string
	approvals *manifest.Approvals
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOf(t, "1", "hello_world", "stream_counter", "sleep", "risky", "steer")
}

// worldOf is one whose agent is told which to be, and may be called for tools.
func worldOf(t *testing.T, which string, tools ...string) *world {
	t.Helper()
	base, err := os.MkdirTemp("", "host") // short enough for a socket address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	w := &world{dir: filepath.Join(base, "agent"), logs: filepath.Join(base, "logs")}
	install(t, w.dir, "first")
	if w.approvals, err = manifest.OpenApprovals(filepath.Join(base, "approvals")); err != nil {
		t.Fatal(err)
	}
	logs, err := OpenLogs(w.logs, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sup, err := supervisor.New(supervisor.Config{SocketDir: filepath.Join(base, "run"), OnLog: logs.Write})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := sup.Stop(ctx); err != nil {
			t.Error(err)
		}
		logs.Close()
	})
	w.Host = New(Config{
		Supervisor: sup, Approvals: w.approvals,
		Installed: []Installed{{Dir: w.dir, Tools: tools, Env: []string{asAgent + "=" + which}}},
		Directive: func(context.Context, string, string) (string, error) { return "directive-1", nil },
	})
	return w
}

func (w *world) approve(t *testing.T) {
	t.Helper()
	m, err := manifest.Read(filepath.Join(w.dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.approvals.Approve(w.dir, m, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatWasApprovedRuns: nothing runs before the approval, nothing after
// the manifest changed, until it is approved again.
func TestOnlyWhatWasApprovedRuns(t *testing.T) {
	requirements.Covers(t, "OSX-8", "OS-4.1.1.5")
	w := newWorld(t)
	w.StartAll(t.Context())
	if st := w.List()[0]; st.State != StateNotStarted || st.Approved || !strings.Contains(st.Reason, "not approved") {
		t.Errorf("not approved: %+v", st)
	}
	if files, _ := Runs(w.logs, id); len(files) != 0 {
		t.Error("it ran: there is a log")
	}
	w.approve(t)
	w.StartAll(t.Context())
	if st := w.List()[0]; st.State != "running" || !st.Approved || len(st.Tools) != 5 || st.PID == 0 {
		t.Errorf("approved: %+v", st)
	}
	install(t, w.dir, "second")
	if st := w.List()[0]; st.Approved {
		t.Errorf("after a change it still counts as approved: %+v", st)
	}
	if err := w.Restart(t.Context(), id); !errors.Is(err, manifest.ErrNotApproved) {
		t.Errorf("restart after a change: %v", err)
	}
	w.approve(t)
	if err := w.Start(t.Context(), id); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := w.Stop(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if st := w.List()[0]; st.State != StateNotStarted || st.Reason != "stopped by the operator" {
		t.Errorf("stopped: %+v", st)
	}
	if err := w.Start(t.Context(), "nobody"); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("nobody: %v", err)
	}
}

// control serves the host's socket and connects to it.
func (w *world) control(t *testing.T) (*Client, string) {
	t.Helper()
	socket := filepath.Join(filepath.Dir(w.dir), "control.sock")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Serve(ctx, socket); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := Dial(t.Context(), socket)
		if err == nil {
			return c, socket
		}
		if !errors.Is(err, ErrNoNode) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestControlSocket(t *testing.T) {
	requirements.Covers(t, "OS-3.2.2", "OS-4.3.2.9", "K-10")
	w := newWorld(t)
	w.approve(t)
	c, socket := w.control(t)
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket mode: %v, %v", st.Mode(), err)
	}
	if err := c.Steer(t.Context(), id, "start"); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Agents(t.Context()); err != nil || len(list) != 1 || list[0].State != "running" {
		t.Errorf("agents %+v, %v", list, err)
	}
	tools, err := c.Tools(t.Context())
	if err != nil || len(tools) != len(reference.ToolNames)+2 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
	var text strings.Builder
	out, err := c.Call(t.Context(), CallRequest{AgentID: id, Tool: "stream_counter", Input: []byte(`{"count":3}`)}, func(e CallEvent) { text.WriteString(e.Text) })
	if err != nil || string(out) != `{"count":3}` || text.String() != "1\n2\n3\n" {
		t.Errorf("call: %s, %q, %v", out, text.String(), err)
	}
	for _, tt := range []struct {
		req  CallRequest
		code string
	}{
		{CallRequest{AgentID: id, Tool: "hello_world", Input: []byte(`{"name":7}`)}, wire.CodeInvalidInput},
		{CallRequest{AgentID: id, Tool: "hello_world", Input: []byte(`[]`)}, wire.CodeInvalidInput},
		{CallRequest{AgentID: id, Tool: "large_output", Input: []byte(`{"bytes":1}`)}, wire.CodeRouteNotFound},
		{CallRequest{AgentID: "nobody", Tool: "x", Input: []byte(`{}`)}, wire.CodeRouteNotFound},
		{CallRequest{AgentID: id, Tool: "sleep", Input: []byte(`{"ms":60000}`), TimeoutMS: 20}, wire.CodeTimeout},
		{CallRequest{AgentID: id, Tool: "risky", Input: []byte(`{}`)}, wire.CodeUnauthorized},
	} {
		_, err := c.Call(t.Context(), tt.req, func(CallEvent) {})
		var failed *CallError
		if !errors.As(err, &failed) || failed.Code != tt.code {
			t.Errorf("%s: %v, want %s", tt.req.Tool, err, tt.code)
		}
	}
	text.Reset()
	out, err = c.Call(t.Context(), CallRequest{AgentID: id, Tool: "risky", Input: []byte(`{}`), Approve: true}, func(e CallEvent) { text.WriteString(e.Text) })
	if err != nil || string(out) != `{"because":"directive-1"}` || text.String() != "token: [REDACTED]" {
		t.Errorf("approved call: %s, %q, %v", out, text.String(), err)
	}
	for _, action := range []string{"restart", "stop"} {
		if err := c.Steer(t.Context(), id, action); err != nil {
			t.Errorf("%s: %v", action, err)
		}
	}
	var refused *CallError
	if err := c.Steer(t.Context(), "nobody", "start"); !errors.As(err, &refused) || refused.Code != wire.CodeRouteNotFound {
		t.Errorf("nobody: %v", err)
	}
	if _, err := Dial(t.Context(), socket+"2"); !errors.Is(err, ErrNoNode) {
		t.Errorf("no node: %v", err)
	}
}

// TestControlBounds: what is not a call is refused with a reason.
func TestControlBounds(t *testing.T) {
	w := newWorld(t)
	c, socket := w.control(t)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	for name, body := range map[string]string{
		"no JSON": "{", "unknown field": `{"agent":"x"}`, "field in another case": `{"Tool":"x"}`, "field twice": `{"tool":"x","tool":"y"}`, "too large": `{"input":"` + strings.Repeat("x", maxControlBody) + `"}`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node/v1/call", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.key)
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

func TestLogsAreKeptWithoutSecrets(t *testing.T) {
	requirements.Covers(t, "OSX-12", "OS-4.3.2.9")
	w := newWorld(t)
	w.approve(t)
	for range keptRuns + 2 {
		if err := w.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := w.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Runs(w.logs, id)
	if err != nil || len(files) != keptRuns {
		t.Fatalf("%d logs, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(raw), "stderr hello, password=[REDACTED] session_id=7") {
			t.Errorf("log %q, %v", raw, err)
		}
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
	}
	if _, err := Runs(w.logs, "../agent"); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("runs of a path: %v", err)
	}
}

// TestAgentWithoutName: an agent that has the id of another, or no readable manifest,
// costs only itself.
func TestAgentWithoutName(t *testing.T) {
	base := t.TempDir()
	all := []Installed{{Dir: base, Tools: []string{"say"}}}
	for _, name := range []string{"a", "b"} {
		install(t, filepath.Join(base, name), "")
		all = append(all, Installed{Dir: filepath.Join(base, name), Tools: []string{"say"}})
	}
	w := newWorld(t)
	h := New(Config{Supervisor: w.Host.cfg.Supervisor, Approvals: w.approvals, Installed: all})

	list := h.List()
	if len(list) != 3 || list[0].Dir != base || list[1].Dir != filepath.Join(base, "b") || list[2].ID != id {
		t.Fatalf("listed %+v", list)
	}
	for i, why := range []string{"manifest", "another agent is called " + id} {
		if st := list[i]; st.ID != "" || st.Approved || !strings.Contains(st.Reason, why) {
			t.Errorf("%+v, want %q", st, why)
		}
		if err := h.Start(t.Context(), list[i].Dir); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("start: %v, want %q", err, why)
		}
	}
	if slots := h.Slots(); len(slots) != 1 || slots[0] != id+"/say" {
		t.Errorf("slots %v", slots)
	}
}

// TestSpecOf: what a manifest leaves open gets a default, and a permission that
// was granted opens what it names.
func TestSpecOf(t *testing.T) {
	requirements.Covers(t, "OSX-11")
	m := &manifest.Manifest{ID: id, Version: "1.0.0", Entrypoint: manifest.Entrypoint{Type: "command", Value: "./run.sh --now"}}
	in := &Installed{Dir: "/srv/agent", Tools: []string{"x"}, Read: []string{"/srv/more"}}
	spec := SpecOf(in, m, []string{"filesystem:read:/srv/texts/**", "filesystem:write:/srv/out", "filesystem:read:/srv/*/deep", "filesystem:read:relative"})
	if spec.Command[0] != "/srv/agent/run.sh" || spec.Command[1] != "--now" || spec.Limits.CallTimeout != 15*time.Second || spec.Limits.Concurrent != 3 {
		t.Errorf("spec %+v", spec)
	}
	c := spec.Confine
	for _, want := range []string{"/srv/more", "/srv/texts", "/usr"} {
		if !slices.Contains(c.Read, want) {
			t.Errorf("cannot read %s", want)
		}
	}
	for _, no := range []string{"/", "/srv", "/etc", "/home", "/root", "/srv/*/deep", "relative"} {
		if slices.Contains(c.Read, no) || slices.Contains(c.Write, no) {
			t.Errorf("may reach %s", no)
		}
	}
	if !slices.Contains(c.Write, "/srv/agent") || !slices.Contains(c.Write, "/srv/out") || c.Network {
		t.Errorf("confinement %+v", c)
	}
	if g := spec.Limits.Group; g.MemoryBytes != 256<<20 || g.Pids != 128 || g.CPUs != 0 {
		t.Errorf("limits %+v", g)
	}
	m.ExecutionLimits = manifest.Limits{MaxToolCallDurationSecs: 60, MaxConcurrentCalls: 9, OpenFiles: 100, MemoryMB: 512, CPUMillis: 500, Processes: 9}
	spec = SpecOf(in, m, []string{"network:egress:api.example.com"})
	if spec.Limits.CallTimeout != time.Minute || spec.Limits.Concurrent != 9 || spec.Limits.OpenFiles != 100 || !spec.Confine.Network {
		t.Errorf("spec %+v", spec)
	}
	if g := spec.Limits.Group; g.MemoryBytes != 512<<20 || g.Pids != 9 || g.CPUs != 0.5 {
		t.Errorf("limits %+v", g)
	}
	in.Unconfined = true
	if spec := SpecOf(in, m, nil); spec.Confine != nil {
		t.Error("confined all the same")
	}
}
