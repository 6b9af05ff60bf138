package organism

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

const example = `organism:
  name: workshop
prompts:
  no_paperclipper: You stop when the task is done.
  coding_base: {file: coding.md}
listeners:
  - name: file-read
    payload_class: FileReadRequest
    handler: com.example.files/read
    description: Reads a file.
    semantic_description: Shows the contents of a file of the project.
    usage_instructions: Give a path below the project.
  - name: grep
    payload_class: GrepRequest
    handler: com.example.files/grep
    description: Searches files.
    ports: [443]
  - name: coder
    payload_class: AgentTask
    handler: agent
    description: Writes code.
    peers: [file-read, grep, research-agent]
    agent:
      prompt: "no_paperclipper & coding_base"
      max_tokens: 4096
      max_iterations: 20
      model: opus
  - name: research-agent
    payload_class: ResearchTask
    handler: agent
    description: Researches.
    peers: [file-read, grep]
    agent: {prompt: no_paperclipper, max_tokens: 100, max_iterations: 3, model: haiku}
    callable:
      description: Deep research on a topic
      parameters:
        - name: query
          type: string
          required: true
      requires: [file-read, grep]
profiles:
  coder:
    listeners: [coder, file-read, grep, research-agent]
    network: [443]
    journal: retain_days(30)
    linux_user: nobody
  reader:
    listeners: [file-read]
`

func parse(t *testing.T, src string) (*Organism, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "coding.md"), []byte("Write Go."), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "organism.yaml")
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestParse(t *testing.T) {
	requirements.Covers(t, "AP-12.0.1", "AP-12.1.1", "AP-12.2.1", "AP-12.3.1", "AP-11.3.1", "AP-8.4.1", "AP-15.1.1", "AP-3.2.6", "AP-3.2.7", "APX-8")
	o, err := parse(t, example)
	if err != nil {
		t.Fatal(err)
	}
	coder, _ := o.Listener("coder")
	if o.Name != "workshop" || len(o.Listeners) != 4 || *coder.Agent != (thinker.Agent{Prompt: "no_paperclipper & coding_base", Model: "opus", MaxTokens: 4096, MaxIterations: 20}) {
		t.Errorf("read %+v", o)
	}
	if text, err := o.Prompt(coder.Agent.Prompt); err != nil || text != "You stop when the task is done.\nWrite Go." {
		t.Errorf("prompt %q, %v", text, err)
	}
	p, ok := o.Profile("coder")
	if !ok || p.Retention != (pipeline.Retention{Policy: pipeline.RetainDays, Days: 30}) || p.LinuxUser != "nobody" || len(p.Network) != 1 || len(p.Listeners) != 4 {
		t.Errorf("profile %+v", p)
	}
	if p, _ := o.Profile("reader"); p.Retention.Policy != pipeline.RetainForever {
		t.Errorf("profile %+v", p)
	}
	research, _ := o.Listener("research-agent")
	if c := research.Callable; c == nil || c.Parameters[0] != (Parameter{"query", "string", true}) || len(c.Requires) != 2 {
		t.Errorf("callable %+v", c)
	}
	read, _ := o.Listener("file-read")
	if read.SemanticDescription == "" || read.Usage == "" || read.PayloadClass != "FileReadRequest" {
		t.Errorf("listener %+v", read)
	}
}

// TestMistakes: each is found when the file is read, and pointed at.
func TestMistakes(t *testing.T) {
	requirements.Covers(t, "AP-11.3.2", "AP-3.2.1", "APX-10")
	for _, tt := range []struct{ name, from, to, want string }{
		{"no name", "name: workshop", "name: ''", ":2:"},
		{"no organism", "organism:\n  name: workshop\n", "", "organism.name: is missing; write organism: {name: NAME}"},
		{"organism as text", "organism:\n  name: workshop\n", "organism: workshop\n", "write organism: {name: NAME}"},
		{"unknown key", "description: Reads a file.", "descr: x", ":10:"},
		{"no description", "    description: Reads a file.\n", "", "listeners[0].description: is missing"},
		{"duplicate", "name: grep", "name: file-read", `listeners[1].name: "file-read" is taken`},
		{"the model's name", "name: grep", "name: model", `"model" is taken`},
		{"no tag", "payload_class: GrepRequest", "payload_class: ''", ":14:"},
		{"tag of an answer", "payload_class: GrepRequest", "payload_class: grep.result", "is reserved for the node"},
		{"tag of a message", "payload_class: GrepRequest", "payload_class: ye.query", "is reserved for the node"},
		{"tag of the model", "payload_class: GrepRequest", "payload_class: LLMRequest", "is reserved for the node"},
		{"handler", "com.example.files/grep", "grep.sh", "must be AGENT/TOOL"},
		{"unknown prompt", "prompt: no_paperclipper", "prompt: paperclipper", `there is no prompt "paperclipper"`},
		{"no prompt", "prompt: no_paperclipper", "prompt: ''", "prompt: is empty"},
		{"prompt file out", "file: coding.md", "file: ../coding.md", "prompts.coding_base: "},
		{"prompt file gone", "file: coding.md", "file: none.md", "prompts.coding_base: "},
		{"no iterations", "max_iterations: 3", "max_iterations: 0", "max_iterations: must be 1 or more"},
		{"no model", "model: haiku", "model: ''", "model: is missing"},
		{"agent without block", "handler: com.example.files/grep", "handler: agent", "needs an agent block"},
		{"unknown peer", "peers: [file-read, grep]", "peers: [file-read, curl]", `peers[1]: there is no listener "curl"`},
		{"tool to the model", "    ports: [443]", "    peers: [model]", "without naming it as a peer"},
		{"port", "ports: [443]", "ports: [0]", "0 is not a port"},
		{"port outside the profile", "network: [443]", "network: [80]", "grep needs port 443"},
		{"every listener", "listeners: [file-read]\n", "listeners: all\n", "wildcards are not allowed"},
		{"unknown listener", "listeners: [file-read]\n", "listeners: [curl]\n", `profiles.reader.listeners[0]: there is no listener "curl"`},
		{"unknown key of a profile", "linux_user: nobody", "user: nobody", "profiles.coder: "},
		{"retention", "retain_days(30)", "retain_days(0)", "retain_forever, prune_on_delivery, retain_days(N)"},
		{"parameter type", "type: string", "type: text", `"text" is not a JSON Schema type`},
		{"requirement", "requires: [file-read, grep]", "requires: [curl]", `requires[0]: there is no listener "curl"`},
		{"requirement of a profile", "listeners: [coder, file-read, grep, research-agent]", "listeners: [file-read, research-agent]", "research-agent requires grep"},
		{"tabs", "organism:\n", "organism:\n\t", ":2:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(example, tt.from) {
				t.Fatal("the example has changed")
			}
			_, err := parse(t, strings.Replace(example, tt.from, tt.to, 1))
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) || e.Line < 1 || e.Column < 1 {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, src := range []string{"", "[]", "organism: 3", strings.Repeat("#", maxFileBytes+1)} {
		if _, err := parse(t, src); !errors.As(err, new(*Error)) {
			t.Errorf("%.20q: %v", src, err)
		}
	}
}

// TestEveryMistakeIsSaid: who corrects one need not look for the next by trying.
func TestEveryMistakeIsSaid(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []string // from, to
		want    []string
	}{
		{
			"of several listeners and a profile",
			[]string{"com.example.files/grep", "grep.sh", "ports: [443]", "ports: [0]", "max_iterations: 3", "max_iterations: 0", "listeners: [file-read]\n", "listeners: [curl]\n"},
			[]string{"must be AGENT/TOOL", "max_iterations: must be 1 or more", `there is no listener "curl"`},
		},
		{
			"in what is read before",
			[]string{"name: workshop", "name: ''", "file: coding.md", "file: none.md", "retain_days(30)", "retain_days(0)"},
			[]string{"organism.name: is missing", "prompts.coding_base: ", "retain_forever, prune_on_delivery, retain_days(N)"},
		},
		{
			"of form",
			[]string{"description: Reads a file.", "descr: x", "max_iterations: 3", "iterations: 3"},
			[]string{"descr", "iterations"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, strings.NewReplacer(c.changes...).Replace(example))
			if err == nil {
				t.Fatal("the file is taken")
			}
			rest, line := err.Error(), 0
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is not said, or not in the order of the lines:\n%v", want, err)
				}
				rest = after
			}
			for said := range strings.Lines(err.Error()) {
				var at int
				if _, err := fmt.Sscanf(said[strings.Index(said, ":")+1:], "%d:", &at); err != nil || at < line {
					t.Errorf("%q: %v", said, err)
				}
				line = at
			}
		})
	}
}
