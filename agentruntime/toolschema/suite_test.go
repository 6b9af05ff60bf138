package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// TestSuite runs the cases of the JSON Schema organisation, which come with a
// module that the node uses, but for the schemas that are refused here.
func TestSuite(t *testing.T) {
	// Of the package, not of its module: that is fetched where it is not there yet.
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/google/jsonschema-go/jsonschema").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(string(bytes.TrimSpace(out)), "testdata/draft2020-12/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	run, refused := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(text, &groups); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range groups {
			s, err := Compile(group.Schema)
			if err != nil {
				refused++
				continue
			}
			for _, c := range group.Tests {
				run++
				if err := s.Validate(c.Data); (err == nil) != c.Valid {
					t.Errorf("%s: %s: %s: %v", filepath.Base(file), group.Description, c.Description, err)
				}
			}
		}
	}
	if t.Logf("%d cases; %d schemas refused", run, refused); run < 800 {
		t.Errorf("only %d cases ran", run)
	}
}

// library is the library's own verdict.
func library(t rapid.TB, schema, doc []byte) bool {
	t.Helper()
	value, err := wire.ParseValue(schema, wire.MaxSchemaDepth)
	if err != nil {
		t.Fatal(err)
	}
	delete(value.(map[string]any), "$id")
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource("schema:tool", value); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema:tool")
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	if value, err = wire.ParseValue(doc, wire.MaxValueDepth); err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value) == nil
}

// TestAsTheLibrary: whatever schema and value, the verdict is the library's.
func TestAsTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema, _ := json.Marshal(map[string]any{"allOf": []any{drawSchema(t, 3)}})
		doc, _ := json.Marshal(drawValue(t, 3))
		s, err := Compile(schema)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		err = s.Validate(doc)
		if errors.Is(err, ErrSteps) {
			t.Fatalf("%s of %s: %v", doc, schema, err)
		}
		if want := library(t, schema, doc); (err == nil) != want {
			t.Fatalf("%s of %s: %v, the library says %v", doc, schema, err, want)
		}
		if again := s.Validate(doc); err != nil && again.Error() != err.Error() {
			t.Fatalf("%s of %s: %v, then %v", doc, schema, err, again)
		}
	})
}

// TestDependencies: what the draft has no more, and its own schema still describes.
func TestDependencies(t *testing.T) {
	s, err := Compile([]byte(`{"dependencies":{"a":["b"],"c":{"required":["d"],"properties":{"d":true}},"e":{"properties":{"f":{"type":"string"}}}},
		"properties":{"a":true,"b":true,"c":true,"e":true},"unevaluatedProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		`{}`: "", `{"a":1,"b":1}`: "", `{"c":1,"d":1}`: "", `{"e":1,"f":"x"}`: "", `{"b":1}`: "",
		`{"a":1}`: "missing b", `{"c":1}`: "missing d", `{"d":1}`: "/d: not allowed", `{"e":1,"f":1}`: "/f: got number, want string",
	} {
		got := ""
		if err := s.Validate([]byte(doc)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}

// FuzzAsTheLibrary: likewise of what is taken, in whatever bytes.
func FuzzAsTheLibrary(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"minimum":1,"multipleOf":0.5}},"additionalProperties":false,"required":["a"]}`), []byte(`{"a":1.5}`))
	f.Add([]byte(`{"$ref":"#/$defs/x","$defs":{"x":{"oneOf":[{"const":1.0},{"enum":[[],"a"]}]}}}`), []byte(`1e0`))
	f.Add([]byte(`{"if":{"contains":{"type":"integer"},"minContains":2},"then":{"uniqueItems":true},"unevaluatedItems":false}`), []byte(`[1,2,"a"]`))
	f.Add([]byte(`{"patternProperties":{"^a":{"format":"regex"}},"propertyNames":{"maxLength":2},"unevaluatedProperties":{"pattern":"b"}}`), []byte(`{"a":"(","é":"b"}`))
	f.Add([]byte(`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"maxProperties":2}},"not":{"prefixItems":[true],"items":false}}`), []byte(`{"a":null,"b":{}}`))
	f.Fuzz(func(t *testing.T, schema, doc []byte) {
		s, err := Compile(schema)
		if err != nil {
			return
		}
		if _, err = wire.ParseValue(doc, wire.MaxValueDepth); err != nil {
			return
		}
		if err = s.Validate(doc); errors.Is(err, ErrSteps) {
			return
		}
		if want := library(t, schema, doc); (err == nil) != want {
			t.Fatalf("%s of %s: %v, the library says %v", doc, schema, err, want)
		}
	})
}

var drawnNames = []string{"a", "b", "ab", "c"}

func drawValue(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.IntRange(-2, 4).Draw(t, "int")
	case 3:
		return rapid.SampledFrom([]json.Number{"1.5", "1.0", "2e0", "10e-1", "0.1"}).Draw(t, "number")
	case 4, 5:
		return rapid.SampledFrom([]string{"", "a", "ab", "aaa", "é", "2026-01-16"}).Draw(t, "text")
	case 6:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[rapid.SampledFrom(drawnNames).Draw(t, "name")] = drawValue(t, depth-1)
	}
	return object
}

func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom([]any{true, true, false, map[string]any{"type": "string"}, map[string]any{"minimum": 1}}).Draw(t, "rule")
	}
	below := func() any { return drawSchema(t, depth-1) }
	several := func() any {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) any { return drawSchema(t, depth-1) }), 1, 3).Draw(t, "several")
	}
	named := func() any {
		m := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			m[rapid.SampledFrom(drawnNames).Draw(t, "name")] = below()
		}
		return m
	}
	count := func() any { return rapid.IntRange(0, 3).Draw(t, "count") }
	names := func() any {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(drawnNames), 0, 2, rapid.ID).Draw(t, "names")
	}
	rules := map[string]func() any{
		"type": func() any {
			return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"null", "boolean", "number", "integer", "string", "array", "object"}), 1, 5, rapid.ID).Draw(t, "types")
		},
		"const":   func() any { return drawValue(t, 2) },
		"enum":    func() any { return []any{drawValue(t, 1), drawValue(t, 1), drawValue(t, 1)} },
		"format":  func() any { return "date" },
		"pattern": func() any { return "^a+$" }, "minLength": count, "maxLength": count,
		"minimum": count, "maximum": count, "exclusiveMinimum": count, "exclusiveMaximum": count,
		"multipleOf": func() any { return json.Number("0.5") },
		"properties": named, "patternProperties": named, "additionalProperties": below, "propertyNames": below,
		"required": names, "minProperties": count, "maxProperties": count,
		"dependentRequired": func() any { return map[string]any{"a": names()} }, "dependentSchemas": named,
		"dependencies": func() any { return map[string]any{"a": names(), "b": below()} },
		"prefixItems":  several, "items": below, "contains": below, "minContains": count, "maxContains": count,
		"minItems": count, "maxItems": count, "uniqueItems": func() any { return true },
		"unevaluatedProperties": below, "unevaluatedItems": below,
		"allOf": several, "anyOf": several, "oneOf": several, "not": below, "if": below, "then": below, "else": below,
	}
	all := make([]string, 0, len(rules))
	for name := range rules {
		all = append(all, name)
	}
	slices.Sort(all)
	schema := map[string]any{}
	for range rapid.IntRange(1, 4).Draw(t, "keywords") {
		name := rapid.SampledFrom(all).Draw(t, "keyword")
		schema[name] = rules[name]()
	}
	return schema
}
