package dvm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/schemas"
)

const agentID = "com.example.echo"

// offer sells texts of the agent for nothing. As many jobs as are measured at
// once may run; the other limits leave room for them.
const offer = `  offers:
    - schema: oa.text_generation.v1
      tool: ` + agentID + `/echo
      modes: [free]
      base_msats: 0
      per_minute_msats: 0
  limits:
    concurrent: 64
    queue: 1024
    queue_per_buyer: 1024
`

// agentManifest lets as many calls run at once.
const agentManifest = `{
  "id": "` + agentID + `", "name": "Echo", "version": "1.0.0", "description": "Returns the prompt.",
  "source": {"git_url": "https://git.example.com/echo"},
  "entrypoint": {"type": "command", "value": "COMMAND"},
  "permissions": [], "capabilities": ["tools"],
  "execution_limits": {"max_concurrent_calls": 64}
}`

// startLightwork runs the real program with its defaults, but for what offer
// says: it journals, stores and announces, and calls a confined agent process.
func startLightwork(tb testing.TB, w world) seller {
	tb.Helper()
	dir := tb.TempDir()
	lightwork := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(w.ctx, program, args...)
		cmd.Dir = dir
		return cmd
	}
	must := func(cmd *exec.Cmd) []byte {
		cmd.Stderr = new(bytes.Buffer)
		out, err := cmd.Output()
		if err != nil {
			tb.Fatalf("%s: %v\n%s", cmd.Args, err, cmd.Stderr)
		}
		return out
	}
	must(lightwork("init", "--wallet", "none", "--relay", w.url))
	install(tb, dir, w)
	must(lightwork("agents", "approve", agentID))
	var keys []struct{ Pubkey string }
	doc := must(lightwork("keys", "show", "--role", "provider", "--json"))
	if err := json.Unmarshal(doc, &keys); err != nil || len(keys) != 1 {
		tb.Fatalf("keys show: %s, %v", doc, err)
	}
	cmd := lightwork("provider", "run")
	announced := &awaited{text: "announced on", found: make(chan string, 1)}
	cmd.Stderr = announced
	p, _ := begin(tb, w, cmd, announced)
	return seller{"lightwork", keys[0].Pubkey, p}
}

// build makes the program, with the tags of this test.
func build(program string) error {
	args := []string{"build", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				args = append(args, "-tags", s.Value)
			}
		}
	}
	cmd := exec.Command("go", append(args, "./cmd/lightwork")...)
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build lightwork: %w\n%s", err, out)
	}
	return nil
}

// install puts the offer and the agent into the node's configuration.
func install(tb testing.TB, dir string, w world) {
	tb.Helper()
	command := self(tb, "agent", "-")
	config := filepath.Join(dir, "lightwork.yaml")
	doc, err := os.ReadFile(config)
	if err != nil {
		tb.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), "  offers:")
	_, after, ok2 := strings.Cut(rest, "  refunds:")
	if !ok || !ok2 {
		tb.Fatal("lightwork.yaml has another form")
	}
	text := before + offer + "  refunds:" + after +
		"\nblobs:\n  - " + w.blobs + "\nagents:\n  - dir: echo\n    tools: [echo]\n    read: [" + filepath.Dir(command[0]) + "]\n"
	manifest := strings.Replace(agentManifest, "COMMAND", strings.Join(command, " "), 1)
	if err := os.Mkdir(filepath.Join(dir, "echo"), 0o700); err != nil {
		tb.Fatal(err)
	}
	for name, content := range map[string]string{config: text, filepath.Join(dir, "echo", "opensentience.agent.json"): manifest} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// serveAgent does what the other sellers do between request and result.
func serveAgent(ctx context.Context, _ string) error {
	return agent.Run(ctx, agent.Config{Version: "1.0.0", Tools: []agent.Tool{{
		Name: "echo",
		Handler: func(_ context.Context, c *agent.Call) (any, error) {
			var req schemas.TextRequest
			if err := c.Decode(&req); err != nil {
				return nil, err
			}
			return map[string]any{"text": req.Prompt, "provenance": map[string]any{"model_id": "echo"}}, nil
		},
	}}})
}
