package mcp

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestCatalogue(t *testing.T) {
	requirements.Covers(t, "OS-4.2.1.8", "OS-4.2.1.2")
	n := serve(t, "catalogue")
	tools, err := n.Tools(agentID)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]supervisor.ToolInfo{}
	for _, tool := range tools {
		got[tool.Name] = tool
	}
	slash, space := hashedName("a_b", "a/b"), hashedName("a_b", "a b")
	for _, name := range []string{"plain", slash, space, "lookalike", "last"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d tools: %v", len(got), got)
	}
	plain := got["plain"]
	if plain.Description != "Does." || string(plain.InputSchema) != `{"type":"object"}` || !plain.SideEffects {
		t.Errorf("plain is %+v", plain)
	}
	if got[space].SideEffects || got[space].Description != "Title" || !got[slash].SideEffects {
		t.Errorf("%+v, %+v", got[space], got[slash])
	}
	if string(got["last"].OutputSchema) != `{"type":"object"}` {
		t.Errorf("last is %+v", got["last"])
	}
	log := n.log()
	for _, want := range []string{
		"tool=noschema", "tool=badschema", "tool=remote", "tool=list", "tool=draft4", "tool=task", "listed twice", "malformed description",
		`"tool renamed" tool=a/b name=` + slash, "rewritten from", "$id removed",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the log", want)
		}
	}
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("n", 200)
	names := []string{"ok", "a b", "a_b", "über", ".hidden", long, long + "2", "\x00"}
	got := toolNames(names)
	want := map[string]string{
		"ok": "ok", "a b": hashedName("a_b", "a b"), "a_b": "a_b", "über": "_ber", ".hidden": "_.hidden",
		long: hashedName(long, long), long + "2": hashedName(long+"2", long+"2"), "\x00": "_",
	}
	seen := map[string]bool{}
	for _, name := range names {
		if got[name] != want[name] || !wire.ValidToolName(got[name]) || seen[got[name]] {
			t.Errorf("%q becomes %q, want %q", name, got[name], want[name])
		}
		seen[got[name]] = true
	}
}

// A server can construct a name that another one is mapped to. Its tool is
// left out, and the others stay.
func TestForgedName(t *testing.T) {
	var tools []*remoteTool
	for _, name := range []string{"a b", "a_b", hashedName("a_b", "a b")} {
		tools = append(tools, &remoteTool{Name: name, InputSchema: jsontext.Value(`{"type":"object"}`)})
	}
	got := offer(tools, slog.New(slog.DiscardHandler), func(*remoteTool) agent.Handler { return nil })
	if len(got) != 2 || got[0].Name == got[1].Name {
		t.Errorf("%d tools", len(got))
	}
}

func FuzzToolNames(f *testing.F) {
	f.Add("a", "a b")
	f.Add("ä", "")
	f.Add(".", "_.")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b {
			return
		}
		got := toolNames([]string{a, b})
		if !wire.ValidToolName(got[a]) || !wire.ValidToolName(got[b]) || got[a] == got[b] {
			t.Errorf("%q, %q become %q, %q", a, b, got[a], got[b])
		}
	})
}

// A schema either means the same after it was adapted, or is refused.
func TestSchemas(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for _, tt := range []struct{ in, want, accepts, refuses string }{
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:x","type":"object"}`, `{"type":"object"}`, `{}`, ``},
		{`{` + draft7 + `"properties":{"p":{"items":[{"type":"string"},true],"additionalItems":false}}}`, ``, `{"p":["a",1]}`, `{"p":["a",1,2]}`},
		{`{` + draft7 + `"properties":{"p":{"items":[]}}}`, ``, `{"p":[1]}`, ``},
		{`{` + draft7 + `"properties":{"p":{"items":{"type":"string"},"additionalItems":false}}}`, ``, `{"p":["a","b"]}`, `{"p":[1]}`},
		{`{` + draft7 + `"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, ``, `{"a":1,"b":1}`, `{"c":1}`},
		{`{` + draft7 + `"dependencies":{"a":["b"]}}`, ``, `{"c":1}`, `{"a":1}`},
		{`{` + draft7 + `"definitions":{"s":{"items":[{"type":"string"}]}},"properties":{"p":{"$ref":"#/definitions/s"}}}`, ``, `{"p":["a"]}`, `{"p":[1]}`},
		// Names of properties and constants are no keywords.
		{`{` + draft7 + `"properties":{"items":{"type":"array"}},"const":{"items":[1]}}`, ``, `{"items":[1]}`, `{"items":[2]}`},
		{`{"properties":{"n":{"maximum":12345678901234567890.5}},"description":"<&>"}`, `{"description":"<&>","properties":{"n":{"maximum":12345678901234567890.5}}}`, `{"n":1}`, ``},
		{`{"$schema":7}`, ``, ``, ``},
		{`{"$schema":"http://json-schema.org/draft-04/schema#"}`, ``, ``, ``},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"$id":"x"}}}`, ``, ``, ``},
		{`{"properties":{"a":{"$ref":"#"}}}`, ``, ``, ``},
		{`{"$id":7}`, ``, ``, ``},
		{`{` + draft7 + `"dependencies":7}`, ``, ``, ``},
		{`[]`, ``, ``, ``},
		{`{"type":"object","type":"string"}`, ``, ``, ``},
		{`null`, ``, ``, ``},
		{`true`, ``, ``, ``},
		{``, ``, ``, ``},
		{`{"description":"` + strings.Repeat("x", toolschema.MaxBytes) + `"}`, ``, ``, ``},
		{strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), ``, ``, ``},
	} {
		adapted, _, err := adaptSchema(json.RawMessage(tt.in))
		if tt.accepts == "" {
			if err == nil {
				t.Errorf("%.100s becomes %.100s", tt.in, adapted)
			}
			continue
		}
		if err != nil || tt.want != "" && string(adapted) != tt.want {
			t.Errorf("%s becomes %s, %v", tt.in, adapted, err)
			continue
		}
		compiled, err := toolschema.Compile(adapted)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(json.RawMessage(tt.accepts)); err != nil {
			t.Errorf("%s refuses %s: %v", adapted, tt.accepts, err)
		}
		if tt.refuses != "" && compiled.Validate(json.RawMessage(tt.refuses)) == nil {
			t.Errorf("%s accepts %s", adapted, tt.refuses)
		}
	}
}

func FuzzAdaptSchema(f *testing.F) {
	f.Add(`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"dependencies":{"a":[]}}],"additionalItems":{}}`)
	f.Add(`{"$id":"x"}`)
	f.Fuzz(func(t *testing.T, doc string) {
		adapted, _, err := adaptSchema(json.RawMessage(doc))
		if err != nil {
			return
		}
		if _, err := toolschema.Compile(adapted); err != nil {
			t.Errorf("%s becomes %s: %v", doc, adapted, err)
		}
	})
}
