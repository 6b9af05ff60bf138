package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestCompileRefuses(t *testing.T) {
	requirements.Covers(t, "OS-4.2.1.5", "OS-4.2.2.4", "AP-A.1")
	deep := strings.Repeat(`{"items":`, 40) + `{}` + strings.Repeat(`}`, 40)
	// Each level refers to the next twice: 2^20 nodes in a few hundred bytes.
	var defs []string
	for i := range 20 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	explode := `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d20":{}}}`
	tests := []struct{ name, doc string }{
		{"nothing", ``},
		{"not JSON", `{`},
		{"not an object", `true`},
		{"array", `[]`},
		{"wrong keyword type", `{"type":5}`},
		{"unknown type", `{"type":"objekt"}`},
		{"bad pattern", `{"pattern":"("}`},
		{"remote ref", `{"$ref":"https://example.com/a.json"}`},
		{"file ref", `{"$ref":"file:///etc/passwd"}`},
		{"relative ref", `{"$ref":"other.json"}`},
		{"dangling ref", `{"$ref":"#/$defs/none"}`},
		{"recursion", `{"$ref":"#"}`},
		{"recursion by a definition", `{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/a"}}}}}`},
		{"dynamic ref", `{"$dynamicRef":"#a"}`},
		{"own id", `{"$id":"https://example.com/"}`},
		{"own id of no text", `{"$id":7}`},
		{"own id with a fragment", `{"$id":"urn:x#y"}`},
		{"own id further in", `{"properties":{"a":{"$id":"urn:x"}}}`},
		{"ref to its own id", `{"$id":"urn:x","$ref":"urn:x#/$defs/a","$defs":{"a":{}}}`},
		{"another draft", `{"$schema":"http://json-schema.org/draft-07/schema#"}`},
		{"too large", `{"description":"` + strings.Repeat("x", MaxBytes) + `"}`},
		{"too deep", deep},
		{"explodes", explode},
		{"huge number", `{"minimum":1e999999}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Compile(json.RawMessage(tt.doc)); !errors.Is(err, ErrSchema) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	schema, err := Compile(json.RawMessage(`{
		"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"properties":{"n":{"type":"integer","minimum":1},"when":{"format":"date-time"},
			"list":{"type":"array","items":{"$ref":"#/$defs/word"}}},
		"required":["n"],"additionalProperties":false,
		"$defs":{"word":{"type":"string","maxLength":3}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ doc, want string }{
		{`{"n":1}`, ``},
		{`{"n":1.0,"when":"2026-01-16T12:00:00Z","list":["abc"]}`, ``},
		{`{}`, `missing n`},
		{`{"n":0}`, `/n: minimum does not hold`},
		{`{"n":"canary"}`, `/n: got string, want integer`},
		{`{"n":1,"when":"canary"}`, `/when: format does not hold`},
		{`{"n":1,"list":["ok","canary"]}`, `/list/1: maxLength does not hold`},
		{`{"n":1,"x":"canary"}`, `unknown x`},
		{`{"n":1e999999999}`, `a number is out of range`},
		{`{"n":` + strings.Repeat("1", 65) + `}`, `a number has too many digits`},
		{`{"n":1} {}`, `not JSON`},
		{`{"n":1,"list":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `nested too deep`},
	}
	for _, tt := range tests {
		err := schema.Validate(json.RawMessage(tt.doc))
		if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && got != tt.want {
			t.Errorf("%s: %v, want %q", tt.doc, err, tt.want)
		}
		if err != nil && !errors.As(err, new(*ValueError)) {
			t.Errorf("%s: untyped error %T", tt.doc, err)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"minimum":1}}}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{},{"not":{}}]}}}`), []byte(`{"a":[1,2,3]}`))
	f.Add([]byte(`{"multipleOf":0.1,"format":"uuid","pattern":"^a*$","uniqueItems":true}`), []byte(`{"a":1e400}`))
	f.Add([]byte(`{"unevaluatedProperties":false,"if":{},"then":{"required":["x"]}}`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, doc, value []byte) {
		s, err := Compile(doc)
		if err != nil {
			if !errors.Is(err, ErrSchema) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if err := s.Validate(value); err != nil && !errors.As(err, new(*ValueError)) {
			t.Fatalf("untyped error %v", err)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)); err != nil {
			b.Fatal(err)
		}
	}
}
