package text

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
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/agentruntime/analysis/code"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/schemas"
)

// agentArgument makes the test program play the agent. The endpoint's URL, its
// model and its embedding model may follow.
const agentArgument = "text-agent"

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == agentArgument {
		os.Exit(agentMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func agentMain(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if len(args) == 3 {
		cfg.Endpoint = &EndpointConfig{
			Client:     model.Config{BaseURL: args[0], Model: args[1], KeyEnv: keyVariable, Total: time.Minute, Attempts: 2},
			EmbedModel: args[2],
		}
	}
	if err := Main(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

const (
	keyVariable = "LIGHTWORK_TEST_MODEL_KEY"
	keyCanary   = "sk-canary-3f9a1c"
)

// start launches the agent under a supervisor, as the node does.
func start(t *testing.T, endpoint ...string) *supervisor.Supervisor {
	t.Helper()
	dir, err := os.MkdirTemp("", "lw") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Config{
		SocketDir: filepath.Join(dir, "s"),
		OnLog: func(l supervisor.LogLine) {
			if strings.Contains(l.Text, keyCanary) {
				t.Error("the key is in the log")
			}
			t.Log(l.Text)
		},
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
	tools := Tools(nil)
	if len(endpoint) > 0 {
		tools = Tools(&EndpointConfig{Client: model.Config{Model: endpoint[1]}, EmbedModel: endpoint[2]})
	}
	err = s.Start(t.Context(), supervisor.Spec{
		ID: ID, Version: Version, Command: append([]string{self, agentArgument}, endpoint...),
		Env: []string{keyVariable + "=" + keyCanary}, Tools: tools, Restart: supervisor.RestartPolicy{Never: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call runs a job as the node does and returns the finished result. Where it
// fails, so does the error's code.
func call(t *testing.T, s *supervisor.Supervisor, id schemas.ID, tool, doc string) (*schemas.Result, string) {
	t.Helper()
	schema, ok := schemas.Lookup(string(id))
	if !ok {
		t.Fatal(id)
	}
	req, err := schema.ParseRequest([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: tool, Input: req.Canonical, CausationID: "directive-1", Timeout: time.Minute})
	var failed *supervisor.Error
	if errors.As(err, &failed) {
		return nil, failed.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	result, err := schema.FinishResult(out.Output, strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if err := req.CheckResult(result); err != nil {
		t.Fatal(err)
	}
	return result, ""
}

const (
	chunkJob  = `{"task":"find the parser","chunk":{"path":"a.go","start_line":3,"end_line":6,"content":"// Parse reads.\nfunc Parse() {\n\tpanic(1)\n}\n"}}`
	rerankJob = `{"user_task":"parse a frame","k":2,"candidates":[{"id":"x","content":"bread"},{"id":"y","content":"func parseFrame()"},{"id":"z","content":""}]}`
	embedJob  = `{"texts":["one text","another"],"dimensions":32}`
)

// Without an endpoint every job type is done all the same, names the program
// that did it, and gives the same bytes when it runs again.
func TestBuiltinJobs(t *testing.T) {
	requirements.Covers(t, "OA-3.5", "AP-10.2.1")
	s := start(t)
	for _, tt := range []struct {
		id        schemas.ID
		tool, doc string
		model     string
		holds     string
	}{
		{schemas.CodeChunkAnalysis, ToolCodeChunk, chunkJob, code.Model, `{"description":"Parse reads. Lines 4 to 6.","kind":"function","line":4,"name":"Parse"}`},
		{schemas.RetrievalRerank, ToolRerank, rerankJob, analysis.RerankModel, `"topk":[{"id":"y","rank":1`},
		{schemas.Embedding, ToolEmbedding, embedJob, analysis.EmbedModel, `"dimensions":32`},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			first, failed := call(t, s, tt.id, tt.tool, tt.doc)
			if failed != "" {
				t.Fatal(failed)
			}
			for _, want := range []string{tt.holds, `"model_id":"` + tt.model + `"`, `"provider_pubkey":"abab`, `"tokens":{"input":`} {
				if !strings.Contains(string(first.Canonical), want) {
					t.Errorf("no %s in %s", want, first.Canonical)
				}
			}
			again, _ := call(t, s, tt.id, tt.tool, tt.doc)
			if again.OutputHash != first.OutputHash {
				t.Errorf("two results: %s, %s", first.Canonical, again.Canonical)
			}
		})
	}
}

// What breaks the schema, or the bounds of a result, is refused by name.
func TestRefusals(t *testing.T) {
	s := start(t)
	many, err := json.Marshal(map[string]any{"texts": strings.Split(strings.Repeat("word ", 200), " "), "dimensions": 16384})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ tool, doc, says string }{
		"unknown field":   {ToolCodeChunk, strings.Replace(chunkJob, `"task"`, `"takss":1,"task"`, 1), "takss"},
		"lines reversed":  {ToolCodeChunk, strings.Replace(chunkJob, `"start_line":3`, `"start_line":9`, 1), "chunk.end_line"},
		"same id":         {ToolRerank, strings.Replace(rerankJob, `"x"`, `"y"`, 1), "candidates[1].id"},
		"too many values": {ToolEmbedding, string(many), "dimensions"},
		"no such tool":    {toolChat, `{"prompt":"x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Call(t.Context(), supervisor.Call{AgentID: ID, Tool: tt.tool, Input: json.RawMessage(tt.doc), CausationID: "d", Timeout: time.Minute})
			var failed *supervisor.Error
			if !errors.As(err, &failed) || tt.says != "" && (failed.Code != wire.CodeInvalidInput || !strings.Contains(failed.Message, tt.says)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConfigNeedsAModel(t *testing.T) {
	cfg := Config{Endpoint: &EndpointConfig{Client: model.Config{BaseURL: "http://127.0.0.1:1/v1"}}, Logger: slog.New(slog.DiscardHandler)}
	if _, _, err := newTools(cfg); err == nil {
		t.Error("an endpoint without a model is of no use")
	}
	cfg.Endpoint.Client.Model, cfg.Endpoint.Client.BaseURL = "m", "ftp://x"
	if _, _, err := newTools(cfg); err == nil {
		t.Error("a bad URL was taken")
	}
}

// A job that waits for a slot ends when its caller gives up.
func TestWaitingJobEnds(t *testing.T) {
	b := builtin{slots: make(chan struct{}, 1)}
	release, err := b.wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.wait(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	release()
	if _, err := b.wait(t.Context()); err != nil {
		t.Error(err)
	}
}
