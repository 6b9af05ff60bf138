package cli

import (
	"context"
	"encoding/json"
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
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
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
