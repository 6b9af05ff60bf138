package thinker

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// file is as much of an organism as an agent needs.
type file struct {
	Prompts map[string]string `yaml:"prompts"`
	Agent   Agent             `yaml:"agent"`
}

func read(t *testing.T, path string) file {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := yaml.UnmarshalWithOptions(doc, &f, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSeedBlock(t *testing.T) {
	requirements.Covers(t, "AP-12.3.1", "AP-11.3.1")
	f := read(t, "testdata/seed.yaml")
	if want := (Agent{Prompt: "no_paperclipper & coding_base", Model: "opus", MaxTokens: 4096, MaxIterations: 20}); f.Agent != want {
		t.Fatalf("%+v", f.Agent)
	}
	cfg := config()
	cfg.Agent, cfg.Tools = f.Agent, nil
	cfg.Prompts = map[string]string{"no_paperclipper": "Make no paperclips.", "coding_base": "You write code."}
	w := build(t, cfg, mock(t, say("done")), nil)
	if _, err := w.do(t.Context(), Task{Task: "a parser"}); err != nil {
		t.Fatal(err)
	}
	r := w.asked[0]
	if r.Messages[0].Content != "Make no paperclips.\nYou write code." || r.Model != "opus" || r.MaxTokens != 4096 || r.Tools != nil || r.Messages[1].Content != "a parser" {
		t.Errorf("%+v", r)
	}
}

// A type of agent that this program has never heard of: only text in a file.
func TestNewAgentType(t *testing.T) {
	requirements.Covers(t, "AP-11.2.1", "AP-11.2.2")
	path := filepath.Join(t.TempDir(), "organism.yaml")
	if err := os.WriteFile(path, []byte(`
prompts:
  poet: "You are {agent_name}, and rhyme. {tool_definitions} Answer as {{json}}: {\"verse\": 1}."
agent:
  prompt: poet
  model: small
  max_tokens: 33
  max_iterations: 3
  temperature: 1.5
  top_p: 0.9
  seed: 42
`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := read(t, path)
	cfg := config()
	cfg.Name, cfg.Agent, cfg.Prompts = "poet", f.Agent, f.Prompts
	w := build(t, cfg, mock(t, say("roses")), nil)
	a, err := w.do(t.Context(), Task{Task: "a verse"})
	if err != nil || a.Text != "roses" || *a.Sampling.Temperature != 1.5 || *a.Sampling.TopP != 0.9 || *a.Sampling.Seed != 42 || a.Sampling.MaxTokens != 33 {
		t.Fatalf("%+v %v", a, err)
	}
	r := w.asked[0]
	want := "You are poet, and rhyme. Tools:\n- calc: Computes.\n  arguments: {\"type\":\"object\",\"required\":[\"expression\"]} Answer as {json}: {\"verse\": 1}."
	if r.Messages[0].Content != want || r.Model != "small" || *r.Temperature != 1.5 {
		t.Errorf("%q %+v", r.Messages[0].Content, r)
	}
}

func TestPrompt(t *testing.T) {
	requirements.Covers(t, "AP-11.3.1", "AP-11.3.2")
	blocks := map[string]string{"a": "A", "b": "B {agent_name}", "unknown": "{task}", "braces": `{"x":{"y":1}} { agent_name } {Agent}`, "bad": "\xff"}
	for prompt, want := range map[string]string{
		"a": "A", "a & b": "A\nB coder", "b&a": "B coder\nA", "  a  &  a ": "A\nA", "braces": blocks["braces"],
	} {
		cfg := config()
		cfg.Tools, cfg.Prompts, cfg.Agent.Prompt = nil, blocks, prompt
		if th, err := New(cfg); err != nil || th.system != want {
			t.Errorf("%s: %q %v", prompt, th.system, err)
		}
	}
	for prompt, unknown := range map[string]bool{"c": true, "a & c": true, "": true, "a &": true, "A": true, "unknown": true, "bad": false} {
		cfg := config()
		cfg.Prompts, cfg.Agent.Prompt = blocks, prompt
		var bad *ConfigError
		if _, err := New(cfg); !errors.As(err, &bad) || bad.Part != "prompt" || errors.Is(err, ErrUnknown) != unknown {
			t.Errorf("%q: %v", prompt, err)
		}
	}
	// What a tool says of itself is not a template, and appears once.
	cfg := config()
	cfg.Tools = []Tool{calc}
	cfg.Tools[0].Description = "{task} {{agent_name}} {tool_definitions}"
	th, err := New(cfg)
	if err != nil || strings.Count(th.system, "{task} {{agent_name}} {tool_definitions}") != 1 {
		t.Errorf("%q %v", th.system, err)
	}
}

func TestConfig(t *testing.T) {
	nan := math.NaN()
	for name, change := range map[string]func(*Config){
		"no name":            func(c *Config) { c.Name = "" },
		"no model":           func(c *Config) { c.Model = "" },
		"itself as model":    func(c *Config) { c.Model = "coder" },
		"no max_tokens":      func(c *Config) { c.Agent.MaxTokens = 0 },
		"no max_iterations":  func(c *Config) { c.Agent.MaxIterations = 0 },
		"negative":           func(c *Config) { c.Agent.MaxIterations = -1 },
		"temperature":        func(c *Config) { c.Agent.Temperature = &nan },
		"negative timeout":   func(c *Config) { c.Timeout = -1 },
		"tool twice":         func(c *Config) { c.Tools = []Tool{calc, calc} },
		"tool name":          func(c *Config) { c.Tools[0].Name = "a.b" },
		"tool without tag":   func(c *Config) { c.Tools[0].Tag = "" },
		"tool never answers": func(c *Config) { c.Tools[0].Answers = nil },
		"tool without form":  func(c *Config) { c.Tools[0].Schema = nil },
		"tool answers tasks": func(c *Config) { c.Tools[0].Answers = []string{tagTask} },
	} {
		cfg := config()
		change(&cfg)
		var bad *ConfigError
		if _, err := New(cfg); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Model(ModelConfig{Name: "model", Description: "x"}); err == nil {
		t.Error("a model that nobody may ask was taken")
	}
}

// The tag of the tasks is configuration too.
func TestOwnTag(t *testing.T) {
	cfg := config()
	cfg.Tag = "ReviewTask"
	w := build(t, cfg, mock(t, say("done")), nil)
	in := ingress(Task{Task: "x"})
	if _, err := w.Submit(t.Context(), in); !errors.Is(err, pipeline.ErrRouteNotFound) {
		t.Error(err)
	}
	in.Tag = "ReviewTask"
	if out, err := w.Submit(t.Context(), in); err != nil || !json.Valid(out.Reply.Payload()) {
		t.Error(err)
	}
}
