package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// list is n times item, as JSON.
func list(item string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// last is list with another item at its end.
func last(item string, n int, end string) string {
	return strings.TrimSuffix(list(item, n), "]") + "," + end + "]"
}

func ofA(schema string) string { return `{"properties":{"a":` + schema + `}}` }

// stepsOf is what a validation took, and what it said.
func stepsOf(t testing.TB, most int, schema, doc string) (int, error) {
	t.Helper()
	s, err := Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("%.80s: %v", schema, err)
	}
	value, err := wire.ParseValue([]byte(doc), wire.MaxValueDepth)
	if err != nil {
		t.Fatal(err)
	}
	c := checker{budget: budget{most}}
	if wrong := c.check(s.compiled, value, nil, nil); wrong != nil {
		err = wrong
	}
	return most - c.left, err
}

// TestWorkIsBounded: schemas within every limit, and values of a sixteenth of what
// a tool may say, which would take hours of a core with them, or the node's memory.
func TestWorkIsBounded(t *testing.T) {
	const size = 256 << 10
	ones := `{"a":` + list("1", size/2) + `}`
	text := `{"a":"` + strings.Repeat("a", size) + `"}`
	objects := `{"a":` + list(`{"b":1}`, size/8) + `}`
	for name, c := range map[string]struct{ schema, doc string }{
		"rules of each item":  {ofA(`{"items":{"allOf":` + list("{}", 9900) + `}}`), ones},
		"alternatives":        {ofA(`{"items":{"anyOf":` + last("false", 9000, "true") + `}}`), ones},
		"one of":              {ofA(`{"items":{"oneOf":` + last("false", 9000, "true") + `}}`), ones},
		"negations":           {ofA(`{"items":{"allOf":` + list(`{"not":false}`, 3000) + `}}`), ones},
		"conditions":          {ofA(`{"items":{"allOf":` + list(`{"if":false,"else":true}`, 2400) + `}}`), ones},
		"references":          {`{"properties":{"a":{"items":{"allOf":` + list(`{"$ref":"#/$defs/a"}`, 1200) + `}}},"$defs":{"a":{"allOf":[{},{}]}}}`, ones},
		"contains":            {ofA(`{"allOf":` + list(`{"contains":false,"minContains":0}`, 1800) + `}`), ones},
		"unique":              {ofA(`{"allOf":` + list(`{"uniqueItems":true}`, 3000) + `}`), `{"a":` + numbered(40_000) + `}`},
		"what is left":        {ofA(`{"allOf":` + list(`{"items":{},"unevaluatedItems":false}`, 1500) + `}`), ones},
		"what is left, names": {ofA(`{"items":{"allOf":` + list(`{"properties":{"b":{}},"unevaluatedProperties":false}`, 1000) + `}}`), objects},
		"names":               {ofA(`{"items":{"allOf":` + list(`{"propertyNames":{}}`, 3000) + `}}`), objects},
		"required":            {ofA(`{"items":{"allOf":` + list(`{"required":["b"]}`, 2400) + `}}`), objects},
		"dependent":           {ofA(`{"items":{"allOf":` + list(`{"dependentSchemas":{"b":{}}}`, 2000) + `}}`), objects},
		"constants":           {ofA(`{"items":{"enum":` + last("2", 9000, "1") + `}}`), ones},
		"lengths":             {ofA(`{"allOf":` + list(`{"maxLength":9999999}`, 2900) + `}`), text},
		"formats":             {ofA(`{"allOf":` + list(`{"format":"uri-reference"}`, 2000) + `}`), text},
		"expressions":         {ofA(`{"pattern":"` + strings.Repeat("(a?){900}", 2) + `$"}`), text},
		"expressions of names": {
			ofA(`{"patternProperties":{"` + strings.Repeat("(a?){900}", 2) + `$":{}}}`),
			`{"a":{"` + strings.Repeat("a", size) + `":1}}`,
		},
		"fractions": {ofA(`{"items":{"allOf":` + list(`{"multipleOf":1e-400}`, 2900) + `}}`), `{"a":` + list("1e400", size/6) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			const enough = 1 << 20 // for a test
			if n, _ := stepsOf(t, enough, c.schema, c.doc); n <= enough {
				t.Errorf("took %d steps", n)
			}
		})
	}
	s, err := Compile(json.RawMessage(ofA(`{"items":{"allOf":` + list("{}", 9900) + `}}`)))
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Validate([]byte(ones)); !errors.Is(err, ErrSteps) || !errors.As(err, new(*ValueError)) {
		t.Errorf("got %v", err)
	}
}

// TestWorkOfSecretsIsBounded: likewise of the search for them.
func TestWorkOfSecretsIsBounded(t *testing.T) {
	const mark = `{"properties":{"b":{"x-secret":true}}}`
	for name, c := range map[string]struct{ schema, doc string }{
		"annotations of each item": {ofA(`{"items":{"allOf":` + list(mark, 1400) + `}}`), `{"a":` + list("{}", 1<<16) + `}`},
		"expressions": {
			ofA(`{"patternProperties":{"` + strings.Repeat("(a?){900}", 2) + `$":{"x-secret":true}}}`),
			`{"a":{"` + strings.Repeat("a", 256<<10) + `":1}}`,
		},
	} {
		s, err := Compile(json.RawMessage(c.schema))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := s.Secrets([]byte(c.doc), stand); !errors.Is(err, ErrSteps) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEverydayWork: what is as large as it may be and has a schema as people write
// them is checked with steps to spare.
func TestEverydayWork(t *testing.T) {
	const person = `{"type":"object","additionalProperties":false,"required":["id","name","mail"],"properties":{
		"id":{"type":"string","format":"uuid"},"name":{"type":"string","minLength":1,"maxLength":80},
		"mail":{"type":"string","pattern":"^[^@ ]+@[^@ ]+$"},"age":{"type":"integer","minimum":0,"maximum":150},
		"tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}},
		"at":{"anyOf":[{"type":"null"},{"type":"string","format":"date-time"}]}}}`
	const ada = `{"id":"6f3b1d2a-9f6e-4f57-8a0e-2c8f3b1d2a9f","name":"Ada Lovelace","mail":"ada@example.org","age":36,"tags":["a","c"],"at":"2026-01-16T12:00:00Z"}`
	for name, c := range map[string]struct{ schema, doc string }{
		"people":  {ofA(`{"type":"array","items":` + person + `}`), `{"a":` + list(ada, (4<<20)/len(ada)) + `}`},
		"numbers": {ofA(`{"type":"array","items":{"type":"number"}}`), `{"a":` + list("1", 2<<20) + `}`},
		"text":    {ofA(`{"type":"string","minLength":1}`), `{"a":"` + strings.Repeat("a", 4<<20) + `"}`},
	} {
		if n, err := stepsOf(t, maxSteps, c.schema, c.doc); err != nil || n > maxSteps/4 {
			t.Errorf("%s: %d steps, %v", name, n, err)
		} else {
			t.Logf("%s: %d steps", name, n)
		}
	}
}

// brackets are all lists of lists with n pairs of brackets, which say nothing but
// how they are nested.
func brackets(n int) []string {
	all := make([][]string, n+1)
	all[0] = []string{""}
	for i := 1; i <= n; i++ {
		for j := range i {
			for _, first := range all[j] {
				for _, more := range all[i-1-j] {
					all[i] = append(all[i], strings.TrimSuffix("["+first+"],"+more, ","))
				}
			}
		}
	}
	for i, text := range all[n] {
		all[n][i] = "[" + text + "]"
	}
	return all[n]
}

// TestUniqueTakesNoSquare: items that differ only in how they are nested, or in a
// sign, or in where one text ends and the next begins.
func TestUniqueTakesNoSquare(t *testing.T) {
	const unique = `{"properties":{"a":{"uniqueItems":true}}}`
	for name, items := range map[string][]string{
		"brackets": brackets(10),
		"signs":    {`1`, `-1`, `1.5`, `"1"`, `[1]`, `["1"]`},
		"texts":    {`["a","b"]`, `["ab",""]`, `["a\"\u0001b"]`, `{"a":"b"}`, `[true]`, `["t"]`, `[null]`, `["n"]`},
	} {
		doc := `{"a":[` + strings.Join(items, ",") + `]}`
		if n, err := stepsOf(t, maxSteps, unique, doc); err != nil || n > 30*len(items)+1000 {
			t.Errorf("%s, %d items: %d steps, %v", name, len(items), n, err)
		}
		doc = `{"a":[` + strings.Join(items, ",") + `,` + items[0] + `]}`
		if _, err := stepsOf(t, maxSteps, unique, doc); err == nil || err.Error() != "/a: uniqueItems does not hold" {
			t.Errorf("%s twice: %v", name, err)
		}
	}
	if _, err := stepsOf(t, maxSteps, unique, `{"a":[{"x":1,"y":[10]},{"y":[1e1],"x":1.0}]}`); err == nil {
		t.Error("equal items are taken for two")
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i)
	}
	return "[" + b.String()[1:] + "]"
}
