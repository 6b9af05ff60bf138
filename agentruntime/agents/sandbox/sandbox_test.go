package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/schemas"
)

// The test program plays three more parts: the supervisor's guard, the agent,
// and process 1 of a sandbox.
const (
	agentArgument = "sandbox-agent"
	initArgument  = "sandbox-init"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 {
		switch os.Args[1] {
		case initArgument:
			os.Exit(sandbox.Init())
		case agentArgument:
			os.Exit(agentMain(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

func agentMain(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := Config{Init: []string{"agent.test", initArgument}, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	for _, arg := range args {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "cgroups":
			cfg.CgroupRoot = value
		case "images":
			cfg.ImageDir = value
		}
	}
	if err := Main(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

// start launches the agent under a supervisor, as the node does.
func start(t *testing.T, args ...string) (*supervisor.Supervisor, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root, or the owner of a cgroup, starts a sandbox")
	}
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(dir, "s"),
		OnLog:     func(l supervisor.LogLine) { t.Log(l.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Start(t.Context(), supervisor.Spec{
		ID: ID, Version: Version, Command: append([]string{self, agentArgument}, args...),
		Tools: []string{Tool}, Restart: supervisor.RestartPolicy{Never: true},
	})
}

// input is a request for the commands, as canonical JSON.
func input(t *testing.T, timeout int, list ...string) (*schemas.Request, json.RawMessage) {
	t.Helper()
	_, digest, err := sandbox.HostManifest()
	if err != nil {
		t.Fatal(err)
	}
	var commands []map[string]any
	for _, c := range list {
		commands = append(commands, map[string]any{"cmd": c})
	}
	doc, err := json.Marshal(map[string]any{
		"sandbox": map[string]any{
			"provider": "host", "image_digest": digest,
			"resources": map[string]any{"memory_mb": 64, "timeout_secs": timeout, "disk_mb": 16},
		},
		"commands": commands,
	})
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	req, err := schema.ParseRequest(doc)
	if err != nil {
		t.Fatal(err)
	}
	return req, req.Canonical
}

func TestAgentRunsAJob(t *testing.T) {
	s, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	req, doc := input(t, 20, "echo out; echo err >&2; echo kept >$LIGHTWORK_ARTIFACTS/a.txt", "exit 3")
	artifacts := t.TempDir()
	streamed := map[wire.Channel]string{}
	result, err := s.Call(t.Context(), supervisor.Call{
		AgentID: ID, Tool: Tool, Input: doc, CausationID: "directive-1", ProjectRoot: artifacts, Timeout: time.Minute,
		OnStream: func(c supervisor.Chunk) { streamed[c.Channel] += c.Text },
	})
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	finished, err := schema.FinishResult(result.Output, strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if err := req.CheckResult(finished); err != nil {
		t.Fatal(err)
	}
	r := finished.Value.(*schemas.SandboxRunResult)
	if r.Status != schemas.StatusFailed || len(r.Runs) != 2 || r.Runs[1].ExitCode != 3 || len(r.Artifacts) != 1 {
		t.Fatalf("%s", finished.Canonical)
	}
	if streamed[wire.Stdout] != "out\n" || streamed[wire.Stderr] != "err\n" {
		t.Errorf("streamed %v", streamed)
	}
	kept, err := os.ReadFile(filepath.Join(artifacts, r.Artifacts[0].SHA256.Hex()))
	if err != nil || string(kept) != "kept\n" {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestAgentErrors(t *testing.T) {
	s, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	_, good := input(t, 20, "true")
	change := func(old, new string) json.RawMessage {
		text := strings.Replace(string(good), old, new, 1)
		if text == string(good) {
			t.Fatalf("%s is not in the request", old)
		}
		return json.RawMessage(text)
	}
	for name, tt := range map[string]struct {
		input     json.RawMessage
		directive string
		root      string
		code      string
	}{
		"no directive":      {good, "", "", wire.CodeUnauthorized},
		"breaks the schema": {change(`"memory_mb":64`, `"memory_mb":"64"`), "d", "", wire.CodeInvalidInput},
		"unknown field":     {change(`"commands"`, `"comands":[],"commands"`), "d", "", wire.CodeInvalidInput},
		"mount over /usr":   {change(`"/workspace"`, `"/usr"`), "d", "", wire.CodeInvalidInput},
		"full network":      {change(`"network_policy":"none"`, `"network_policy":"full"`), "d", "", wire.CodeInvalidInput},
		"no project root":   {good, "d", "/no/such/dir", wire.CodeInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Call(t.Context(), supervisor.Call{
				AgentID: ID, Tool: Tool, Input: tt.input, CausationID: tt.directive, ProjectRoot: tt.root, Timeout: time.Minute,
			})
			var se *supervisor.Error
			if !errors.As(err, &se) || se.Code != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

// The image has no shell: what matters is which root the job got.
func TestAgentRunsOnImages(t *testing.T) {
	tree, store := t.TempDir(), filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(filepath.Join(tree, "data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	digest, err := images.Add(store, tree)
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(t, "images="+store)
	if err != nil {
		t.Fatal(err)
	}
	_, host := input(t, 20, "true")
	_, hostDigest, err := sandbox.HostManifest()
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Replace(strings.Replace(string(host), hostDigest, digest.String(), 1), `"provider":"host"`, `"provider":"docker"`, 1)
	out, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: Tool, Input: json.RawMessage(doc), CausationID: "d", Timeout: time.Minute})
	if err != nil || !strings.Contains(string(out.Output), "start /bin/sh in /workspace: no such file") || !strings.Contains(string(out.Output), digest.String()) {
		t.Errorf("%s %v", out.Output, err)
	}
}

func TestAgentStopsAJob(t *testing.T) {
	s, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	_, doc := input(t, 100, "echo up; sleep 100")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Call(ctx, supervisor.Call{
		AgentID: ID, Tool: Tool, Input: doc, CausationID: "d", Timeout: time.Minute,
		OnStream: func(supervisor.Chunk) { cancel() },
	})
	var se *supervisor.Error
	if !errors.As(err, &se) || se.Code != wire.CodeCanceled {
		t.Errorf("got %v", err)
	}
	// The limit of the call is not the limit of the job.
	_, err = s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: Tool, Input: doc, CausationID: "d", Timeout: 500 * time.Millisecond})
	if !errors.As(err, &se) || se.Code != wire.CodeTimeout {
		t.Errorf("got %v", err)
	}
	_, doc = input(t, 1, "sleep 100")
	out, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: Tool, Input: doc, CausationID: "d", Timeout: time.Minute})
	if err != nil || !strings.Contains(string(out.Output), `"status":"timeout"`) {
		t.Errorf("got %s, %v", out.Output, err)
	}
	// The agent is free again.
	_, doc = input(t, 20, "true")
	if _, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: Tool, Input: doc, CausationID: "d", Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
}

func TestAgentRefusesToServeUnconfined(t *testing.T) {
	if _, err := start(t, "cgroups="+t.TempDir()); err == nil {
		t.Error("an agent that cannot confine is up")
	}
}

func TestFailureNamesWhoseFaultItIs(t *testing.T) {
	for err, want := range map[error]string{
		&sandbox.RequestError{Field: "f", Reason: "r"}:  codeBadRequest,
		&sandbox.ConfineError{Missing: []string{"m"}}:   CodeCannotConfine,
		fmt.Errorf("%w: panic", sandbox.ErrSandboxDied): codeDied,
		fmt.Errorf("run: %w", &sandbox.RequestError{}):  codeBadRequest,
	} {
		var we *wire.Error
		if !errors.As(failure(err), &we) || we.Code != want {
			t.Errorf("%v is %v", err, failure(err))
		}
	}
	if err := errors.New("secret detail"); failure(err) != err {
		t.Error("an unknown error is shown to the caller")
	}
}

// TestSchemaIsTheJobs: the tool takes what the job type says, word for word (M-6),
// but for the patterns that a request is held to before there is a call.
func TestSchemaIsTheJobs(t *testing.T) {
	tool, err := newTool(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	job, _ := schemas.Lookup(string(schemas.SandboxRun))
	if _, err := toolschema.Compile(tool.InputSchema); err != nil || !bytes.Equal(tool.InputSchema, job.InputShape()) {
		t.Errorf("registered %s, %v", tool.InputSchema, err)
	}
}
