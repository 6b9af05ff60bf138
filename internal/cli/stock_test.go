package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/schemas"
)

// asSeller is the argument that makes the test binary an agent with the tool of
// the file tool.json in its folder. It does not start where a file "broken" is,
// and ends when one comes.
const asSeller = "agent-that-sells"

func runAsSeller() int {
	isBroken := func() bool { _, err := os.Stat("broken"); return err == nil }
	var tool struct {
		Input  json.RawMessage `json:"input_schema"`
		Output json.RawMessage `json:"output_schema"`
		Result json.RawMessage `json:"result"`
	}
	doc, err := os.ReadFile("tool.json")
	if err != nil || json.Unmarshal(doc, &tool) != nil || isBroken() {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for !isBroken() {
			time.Sleep(50 * time.Millisecond)
		}
		os.Exit(1)
	}()
	err = agent.Run(ctx, agent.Config{
		Version: "1.0.0", Log: slog.New(slog.DiscardHandler),
		Tools: []agent.Tool{{
			Name: "work", Description: "work", InputSchema: tool.Input, OutputSchema: tool.Output,
			Handler: func(context.Context, *agent.Call) (any, error) { return tool.Result, nil },
		}},
	})
	if err != nil {
		return 1
	}
	return 0
}

// withSeller gives a script the seller's entrypoint as $PROGRAM, and in fits.json a
// tool that does oa.embedding.v1.
func withSeller(e *testscript.Env) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	e.Setenv("PROGRAM", program+" "+asSeller)
	s, _ := schemas.Lookup(string(schemas.Embedding))
	digest := "sha256:" + strings.Repeat("0", 64)
	fits, err := json.Marshal(map[string]any{
		"input_schema": s.InputSchema(),
		"result": map[string]any{
			"embeddings": [][]int{{1}}, "model_id": "m", "dimensions": 1,
			"provenance": map[string]any{"model_id": "m", "executed_at": 1, "duration_ms": 1, "input_sha256": digest, "output_sha256": digest},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(e.WorkDir, "fits.json"), fits, 0o600)
}

// TestStock: what cannot be done is not sold, whatever keeps it from being done,
// and nothing else suffers from it.
func TestStock(t *testing.T) {
	down := filepath.Join(t.TempDir(), "down") // the script makes the file
	words := chat.Message{Role: chat.RoleAssistant, Content: "it is done"}
	endpoint := scripted.New(scripted.Stream(scripted.Events(words, "stop")...))
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(down); err == nil {
			http.Error(w, "{}", http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/models" {
			fmt.Fprint(w, `{"data":[{"id":"other"}]}`)
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/stock.txtar", "testdata/named/misfit.txtar"},
		Setup: func(e *testscript.Env) error {
			e.Setenv("ENDPOINT", model.URL)
			e.Setenv("DOWN", down)
			return withSeller(e)
		},
	})
}

// TestModelLooks: an endpoint is believed gone at the second failure, and back at
// the first answer. It is asked for nothing that costs.
func TestModelLooks(t *testing.T) {
	var answers []error
	s := &stock{models: map[string]bool{"oa.text_generation.v1": true}, routes: map[string]route{}, found: map[string]string{}}
	asked := 0
	s.ping = func(context.Context) error {
		asked++
		err := answers[0]
		answers = answers[1:]
		return err
	}
	gone := errors.New("connection refused")
	for _, c := range []struct {
		answers []error
		down    string
	}{
		{[]error{nil}, ""},
		{[]error{gone, nil}, ""},
		{[]error{gone, gone}, "connection refused"},
		{[]error{nil}, ""},
	} {
		answers, asked = c.answers, 0
		s.askModel(t.Context())
		if s.down != c.down || asked != len(c.answers) {
			t.Errorf("%v: down %q after %d questions", c.answers, s.down, asked)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answers = []error{gone}
	if s.askModel(ended); s.down != "" {
		t.Error("an interrupted question is taken for an answer")
	}
}

// TestToolchainLooks: what runs on the host's tools is not sold while they are others
// than the announced ones.
func TestToolchainLooks(t *testing.T) {
	const job = "oa.sandbox_run.v1"
	s := &stock{routes: map[string]route{job: {agent: agentsandbox.ID}}, found: map[string]string{}}
	other, failure := true, error(nil)
	s.toolchain = func() (bool, error) { return other, failure }
	s.lookAtTools()
	if why, unfit := s.tool(job); unfit || !strings.Contains(why, "toolchain has changed") {
		t.Errorf("withdrawn because of %q, unfit %v", why, unfit)
	}

	var told strings.Builder
	s.tell = newTeller(slog.New(slog.NewTextHandler(&told, nil)), nil)
	failure = errors.New("permission denied")
	if s.lookAtTools(); !s.onOtherTools() || !strings.Contains(told.String(), "permission denied") {
		t.Errorf("told %q", &told)
	}
	other, failure = false, nil
	if s.lookAtTools(); s.onOtherTools() {
		t.Error("what was brought back is still called another toolchain")
	}
}

// TestBuiltInToolsFit: every job type's own tool takes its requests.
func TestBuiltInToolsFit(t *testing.T) {
	for _, s := range schemas.All() {
		agent, tool, ok := config.OwnTool(s.ID)
		if !ok {
			t.Errorf("%s: no tool", s.ID)
			continue
		}
		if why := toolMisfit(s, agent+"/"+tool, s.InputSchema(), s.OutputSchema()); why != "" {
			t.Error(why)
		}
		for _, other := range schemas.All() {
			if other.ID != s.ID && toolMisfit(other, "a/b", s.InputSchema(), s.OutputSchema()) == "" {
				t.Errorf("the tool of %s would be sold for %s", s.ID, other.ID)
			}
		}
	}
}
