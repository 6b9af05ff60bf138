package cli

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/model/scripted"
)

// runDocs are the documents whose commands and configurations are run as printed.
var runDocs = []string{"build-agents/pipeline.md", "build-agents/messages.md", "build-agents/context.md", "build-agents/thinking-agents.md"}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// yamlBlocks are the configurations that a document shows.
func yamlBlocks(t *testing.T, name string) []string {
	t.Helper()
	var blocks []string
	for i, part := range strings.Split(readDoc(t, name), "```yaml\n") {
		if text, _, ok := strings.Cut(part, "```"); ok && i > 0 {
			blocks = append(blocks, text)
		}
	}
	return blocks
}

// asAgent is the argument that makes the test binary the agent of the documents'
// example.
const asAgent = "agent-of-the-documents"

func runAsAgent() int {
	schema := []byte(`{"type":"object"}`)
	tool := func(name string) agent.Tool {
		return agent.Tool{Name: name, Description: name, InputSchema: schema, Handler: func(context.Context, *agent.Call) (any, error) {
			return map[string]string{"did": name}, nil
		}}
	}
	if err := agent.Run(context.Background(), agent.Config{
		Version: "1.0.0", Tools: []agent.Tool{tool("read"), tool("grep"), tool("count")}, Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		return 1
	}
	return 0
}

// TestDocsConfigurations: the organisms that the documents show run on a node.
func TestDocsConfigurations(t *testing.T) {
	thinking, messages, pipeline := yamlBlocks(t, "build-agents/thinking-agents.md"), yamlBlocks(t, "build-agents/messages.md"), yamlBlocks(t, "build-agents/pipeline.md")
	if len(thinking) != 2 || len(messages) != 1 || len(pipeline) != 2 {
		t.Fatalf("%d, %d and %d blocks", len(thinking), len(messages), len(pipeline))
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := chat.Message{Role: chat.RoleAssistant, Content: "it is done"}
	model := httptest.NewServer(scripted.New(scripted.Stream(scripted.Events(words, "stop")...)))
	t.Cleanup(model.Close) // the script runs after this function
	runScripts(t, testscript.Params{
		Files: []string{"testdata/named/docs.txtar"},
		Setup: func(e *testscript.Env) error {
			e.Setenv("ENDPOINT", model.URL)
			e.Setenv("PROGRAM", program+" "+asAgent)
			if err := os.WriteFile(filepath.Join(e.WorkDir, "thinking.yaml"), []byte(thinking[0]+thinking[1]), 0o600); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "pipeline.yaml"), []byte(pipeline[1]), 0o600); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "pipeline-config.yaml"), []byte(pipeline[0]), 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "listener.yaml"), []byte(messages[0]), 0o600)
		},
	})
}

var (
	printedForm = regexp.MustCompile("`(lightwork [^`]*)`")
	// What stands for something in a printed command.
	standsFor = strings.NewReplacer(regexp.QuoteMeta(`"..."`), `(?:'[^']*'|\S+)`, regexp.QuoteMeta(" [SESSION]"), `(?: \S+)?`, " ID", ` \S+`, "--profile P ", `--profile \S+ `)
)

// TestDocsCommandsAreRun: a script runs each command that the documents print.
func TestDocsCommandsAreRun(t *testing.T) {
	var scripts strings.Builder
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		scripts.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range runDocs {
		for _, m := range printedForm.FindAllStringSubmatch(readDoc(t, name), -1) {
			rest := standsFor.Replace(regexp.QuoteMeta(strings.TrimPrefix(m[1], "lightwork")))
			form := regexp.MustCompile(`(?m)^(?:exec )?lightwork(?: -c \S+)?` + rest + `(?: |$)`)
			if !form.MatchString(scripts.String()) && !strings.Contains(scripts.String(), `"value": "`+m[1]+`"`) {
				t.Errorf("docs/%s prints %q, which no script runs (%s)", name, m[1], form)
			}
		}
	}
}
