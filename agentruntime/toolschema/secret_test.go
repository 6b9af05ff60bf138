package toolschema

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestSecretsAreFound: every way in which a schema can say what a value is, and
// what is beside it stays byte for byte.
func TestSecretsAreFound(t *testing.T) {
	requirements.Covers(t, "K-38")
	for name, c := range map[string]struct{ schema, doc, want string }{
		"none":           {`{"properties":{"a":{"type":"string"}}}`, `{"a": "x"}`, `{"a": "x"}`},
		"writeOnly":      {`{"properties":{"a":{"writeOnly":true}}}`, `{ "b":1.0, "a" : "x" }`, `{ "b":1.0, "a" : S }`},
		"x-secret":       {`{"properties":{"a":{"x-secret":true}}}`, `{"a":{"b":[1, 2]}, "c":"a"}`, `{"a":S, "c":"a"}`},
		"not marked":     {`{"properties":{"a":{"writeOnly":false,"x-secret":"true"}}}`, `{"a":"x"}`, `{"a":"x"}`},
		"null":           {`{"properties":{"a":{"writeOnly":true}}}`, `{"a":null}`, `{"a":null}`},
		"nested":         {`{"properties":{"a":{"properties":{"b":{"x-secret":true}}}}}`, `{"a":{"b":7}}`, `{"a":{"b":S}}`},
		"items":          {`{"properties":{"a":{"items":{"x-secret":true}}}}`, `{"a":["x",null,"y"]}`, `{"a":[S,null,S]}`},
		"prefix":         {`{"properties":{"a":{"prefixItems":[{},{"x-secret":true}],"items":{}}}}`, `{"a":["x","y","z"]}`, `{"a":["x",S,"z"]}`},
		"contains":       {`{"properties":{"a":{"contains":{"x-secret":true}}}}`, `{"a":["x"]}`, `{"a":[S]}`},
		"pattern":        {`{"patternProperties":{"^p":{"x-secret":true}}}`, `{"pw":"x","q":"y"}`, `{"pw":S,"q":"y"}`},
		"rest":           {`{"properties":{"a":{}},"additionalProperties":{"writeOnly":true}}`, `{"a":"x","b":"y"}`, `{"a":"x","b":S}`},
		"rest, pattern":  {`{"patternProperties":{"^p":{}},"additionalProperties":{"writeOnly":true}}`, `{"p":"x","b":"y"}`, `{"p":"x","b":S}`},
		"unevaluated":    {`{"unevaluatedProperties":{"writeOnly":true}}`, `{"b":"y"}`, `{"b":S}`},
		"ref":            {`{"properties":{"a":{"$ref":"#/$defs/pw"}},"$defs":{"pw":{"type":"string","x-secret":true}}}`, `{"a":"x"}`, `{"a":S}`},
		"beside a ref":   {`{"properties":{"a":{"$ref":"#/$defs/s","writeOnly":true}},"$defs":{"s":{}}}`, `{"a":"x"}`, `{"a":S}`},
		"allOf":          {`{"allOf":[{"properties":{"a":{"x-secret":true}}}]}`, `{"a":"x"}`, `{"a":S}`},
		"other branch":   {`{"oneOf":[{"properties":{"a":{"x-secret":true}}},{"required":["b"]}]}`, `{"a":"x","b":1}`, `{"a":S,"b":1}`},
		"then":           {`{"if":{"required":["a"]},"then":{"properties":{"a":{"x-secret":true}}}}`, `{"a":"x"}`, `{"a":S}`},
		"dependent":      {`{"dependentSchemas":{"u":{"properties":{"a":{"x-secret":true}}}}}`, `{"u":1,"a":"x"}`, `{"u":1,"a":S}`},
		"dependency":     {`{"dependencies":{"u":{"properties":{"a":{"x-secret":true}}},"v":["a"]}}`, `{"u":1,"a":"x"}`, `{"u":1,"a":S}`},
		"escaped name":   {`{"properties":{"pass":{"x-secret":true}}}`, `{"p\u0061ss":"x"}`, `{"p\u0061ss":S}`},
		"in a secret":    {`{"properties":{"a":{"x-secret":true,"properties":{"b":{"x-secret":true}}}}}`, `{"a":{"b":"x"}}`, `{"a":S}`},
		"other type":     {`{"properties":{"a":{"properties":{"b":{"x-secret":true}}}}}`, `{"a":["x"]}`, `{"a":["x"]}`},
		"several":        {`{"properties":{"a":{"x-secret":true},"b":{"x-secret":true}}}`, `{"a":"x","c":0,"b":"y"}`, `{"a":S,"c":0,"b":S}`},
		"name of a mark": {`{"properties":{"writeOnly":{"type":"boolean"}}}`, `{"writeOnly":true}`, `{"writeOnly":true}`},
	} {
		s, err := Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := s.Secrets([]byte(c.doc), stand)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
		if s.HasSecrets() != strings.Contains(c.schema, ":true") && name != "name of a mark" {
			t.Errorf("%s: HasSecrets is %v", name, s.HasSecrets())
		}
	}
}

func stand([]byte) ([]byte, error) { return []byte("S"), nil }

func TestSecretsAreRefused(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","writeOnly":true}`, `{"$ref":"#/$defs/a","$defs":{"a":{"x-secret":true}}}`, `{"anyOf":[{"x-secret":true}]}`,
	} {
		if _, err := Compile([]byte(schema)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", schema, err)
		}
	}
	s, err := Compile([]byte(`{"properties":{"a":{"x-secret":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":"x"`, `{"a":"x"}{}`, `{"a":"x","a":"y"}`, `{"a":x}`, "{\"a\":\"\xff\"}"} {
		if out, err := s.Secrets([]byte(doc), stand); err == nil {
			t.Errorf("%s became %s", doc, out)
		}
	}
}

func TestMemberSecrets(t *testing.T) {
	got, err := MemberSecrets([]byte(`{"a":"x", "b":[{}], "c":null}`), stand)
	if err != nil || string(got) != `{"a":S, "b":S, "c":null}` {
		t.Errorf("%s, %v", got, err)
	}
}
