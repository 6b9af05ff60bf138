package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// inputs are documents for every schema below.
var inputs = []string{
	`null`, `true`, `false`, `0`, `1`, `1.0`, `-1`, `1.5`, `10e-1`, `9007199254740993`, `0.3`, `1e300`, `""`, `"a"`, `"ab"`, `"abc"`, `"äöü"`, `"2026-01-16"`, `"::1"`,
	`[]`, `[1]`, `[1,1.0]`, `[1,"a"]`, `["a",1]`, `["a","b","c"]`, `[[]]`, `{}`, `{"a":1}`, `{"a":"x"}`, `{"a":null}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":{"a":1}}`, `{"a/b":1}`,
	`{"a~b":"x"}`, `{"c":"::1"}`, `{"a":["x"]}`,
	`{`, `1 1`, `{"a":1,"a":2}`, `1e999999`, strings.Repeat("[", 100) + strings.Repeat("]", 100),
}

// TestInputsAreChecked: what the SDK refuses, the node refuses; where the SDK
// knows the whole schema, they agree.
func TestInputsAreChecked(t *testing.T) {
	requirements.Covers(t, "OS-4.3.1.10")
	for _, tt := range []struct {
		schema string
		exact  bool
	}{
		{`true`, true},
		{`false`, true},
		{`{"type":"integer"}`, true},
		{`{"type":["null","string","number"]}`, true},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`, true},
		{`{"properties":{"a":{"type":"integer"},"a/b":false},"additionalProperties":false}`, true},
		{`{"properties":{"a":true},"additionalProperties":{"type":"string"}}`, true},
		{`{"patternProperties":{"^a":true},"additionalProperties":false}`, false},
		{`{"properties":{"a":{"properties":{"a":false}}}}`, true},
		{`{"minProperties":1,"maxProperties":1}`, true},
		{`{"minItems":1,"maxItems":2,"items":{"type":"number"}}`, true},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}`, false},
		{`{"minLength":2,"maxLength":3.0}`, true},
		{`{"pattern":"^a"}`, true},
		{`{"minimum":1,"maximum":1}`, true},
		{`{"exclusiveMinimum":0.3,"exclusiveMaximum":9007199254740993}`, true},
		{`{"enum":[1,"a",null,[1],{"a":1.0}]}`, true},
		{`{"const":{"a":1}}`, true},
		{`{"const":1.0,"title":"t","description":"d","default":1,"x-y":1}`, true},
		{`{"allOf":[{"type":"string"},{"maxLength":1}]}`, true},
		{`{"anyOf":[{"type":"string"},{"minimum":1}]}`, true},
		{`{"oneOf":[{"type":"integer"},{"minimum":1}]}`, true},
		{`{"oneOf":[{"format":"ipv6"},{"format":"date"}]}`, false},
		{`{"oneOf":[{"format":"ipv6"},{"format":"date"},{"type":"string"}]}`, false},
		{`{"oneOf":[{"multipleOf":0.1},{"type":"string"},{"maxLength":1}]}`, false},
		{`{"not":{"format":"date"}}`, false},
		{`{"if":{"multipleOf":0.1},"then":{"type":"string"},"else":false}`, false},
		{`{"$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}`, false},
		{`{"uniqueItems":true,"contains":{"const":1}}`, false},
		{`{"properties":{"a":{"not":{}}},"anyOf":[{"propertyNames":{"maxLength":1}},false]}`, false},
	} {
		doc := tt.schema
		if !strings.HasPrefix(doc, "{") {
			doc = `{"allOf":[` + doc + `]}`
		}
		here, err := compileInput(json.RawMessage(doc))
		if err != nil {
			t.Errorf("%s: %v", doc, err)
			continue
		}
		if here.exact != tt.exact {
			t.Errorf("%s: known completely is %t", doc, here.exact)
		}
		compare(t, here, doc, inputs...)
	}
}

func compare(t *testing.T, here inputSchema, doc string, inputs ...string) {
	t.Helper()
	node, err := toolschema.Compile(json.RawMessage(doc))
	if err != nil {
		return // no node registers it
	}
	for _, input := range inputs {
		wrong, refused := here.check(json.RawMessage(input)), node.Validate(json.RawMessage(input))
		if wrong != "" && refused == nil || here.exact && wrong == "" && refused != nil {
			t.Errorf("%s for %s: here %q, in the node %v", input, doc, wrong, refused)
		}
	}
}

func TestSaysWhatIsWrong(t *testing.T) {
	s, err := compileInput(json.RawMessage(`{"type":"object","required":["n"],"additionalProperties":false,"properties":{
		"n":{"type":"integer","minimum":1},"a/b":{"items":{"enum":["x"]}},"o":{"oneOf":[{"const":1},{"type":"number"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]string{
		`{"n":1,"a/b":["x"],"o":2}`: ``,
		`{}`:                        `missing n`,
		`{"n":0}`:                   `/n: minimum does not hold`,
		`{"n":"canary"}`:            `/n: got string, want integer`,
		`{"n":1,"x":"canary"}`:      `unknown x`,
		`{"n":1,"a/b":["canary"]}`:  `/a~1b/0: enum does not hold`,
		`{"n":1,"o":1}`:             `/o: oneOf does not hold`,
		`[]`:                        `got array, want object`,
		`{"n":1}{}`:                 `not JSON`,
	} {
		if got := s.check(json.RawMessage(input)); got != want {
			t.Errorf("%s: %q, want %q", input, got, want)
		}
	}
}

func TestBadSchemasAreRefused(t *testing.T) {
	for _, doc := range []string{
		``, `{`, `true`, `[]`, `{"type":5}`, `{"type":"objekt"}`, `{"type":["string",5]}`, `{"enum":1}`, `{"minimum":"1"}`, `{"pattern":"("}`, `{"pattern":1}`,
		`{"required":"a"}`, `{"required":[1]}`, `{"properties":[]}`, `{"properties":{"a":7}}`, `{"items":[]}`, `{"additionalProperties":1}`, `{"anyOf":{}}`, `{"oneOf":[1]}`, `{"allOf":[1]}`,
		strings.Repeat(`{"items":`, 40) + `{}` + strings.Repeat(`}`, 40),
	} {
		if _, err := compileInput(json.RawMessage(doc)); err == nil {
			t.Errorf("accepted %s", doc)
		}
		if _, err := toolschema.Compile(json.RawMessage(doc)); err == nil {
			t.Errorf("the node accepts %s", doc)
		}
	}
}

// FuzzInput looks for a schema and an input on which SDK and node differ in a
// way that they may not.
func FuzzInput(f *testing.F) {
	for i, input := range inputs {
		f.Add([]byte(`{"properties":{"a":{"minimum":1}},"required":["a"]}`), []byte(input))
		f.Add([]byte(fmt.Sprintf(`{"oneOf":[{"minLength":%d},{"enum":[%d,{}]},{"items":{"type":"string"}}]}`, i, i)), []byte(input))
	}
	f.Fuzz(func(t *testing.T, doc, input []byte) {
		here, err := compileInput(doc)
		if err != nil {
			if _, err := toolschema.Compile(doc); err == nil {
				t.Fatalf("the node accepts what is refused here: %s", doc)
			}
			return
		}
		compare(t, here, string(doc), string(input))
	})
}
