package toolschema

import (
	"encoding/json"
	"testing"
)

// job is the schema of a job type: a required text, a whole number that may be
// left out, and one that has a default.
const job = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{
	"text":{"type":"string","maxLength":100},"n":{"type":"integer"},"how":{"type":"object","default":{},"properties":{"mode":{"type":"string"}}},
	"list":{"type":"array","items":{"type":"number"}}}}`

func TestTakes(t *testing.T) {
	for _, c := range []struct{ name, tool, want string }{
		{"the job type's own", job, ""},
		{"anything", `{}`, ""},
		{"any object", `{"type":"object"}`, ""},
		{"some of it, open", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`, ""},
		{"a default is always there", `{"required":["text","how"]}`, ""},
		{"a number for a whole one", `{"properties":{"n":{"type":"number"}}}`, ""},
		{"several types", `{"properties":{"n":{"type":["null","integer"]}}}`, ""},
		{"by reference", `{"properties":{"text":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"type":"string"}}}`, ""},
		{"one of several", `{"anyOf":[{"required":["name"]},{"required":["text"]}]}`, ""},
		{"patterns", `{"additionalProperties":false,"patternProperties":{".":{}}}`, ""},

		{"another type", `{"type":"array"}`, "the tool takes array, the job type has object"},
		{"wants more", `{"type":"object","required":["name"]}`, `the tool wants "name", which a request need not have`},
		{"wants what may be left out", `{"required":["n"]}`, `the tool wants "n", which a request need not have`},
		{"knows less", `{"additionalProperties":false,"properties":{"text":{},"n":{},"list":{}}}`, `the tool does not take "how", which a request may have`},
		{"a whole number for any", `{"properties":{"list":{"items":{"type":"integer"}}}}`, "/list/0: the tool takes integer, the job type has number"},
		{"another type below", `{"properties":{"text":{"type":"integer"}}}`, "/text: the tool takes integer, the job type has string"},
		{"by reference", `{"properties":{"text":{"$ref":"#/$defs/t"}},"$defs":{"t":{"type":"integer"}}}`, "/text: the tool takes integer, the job type has string"},
		{"deeper", `{"properties":{"how":{"required":["mode"]}}}`, `/how: the tool wants "mode", which a request need not have`},
		{"all of several", `{"allOf":[{"required":["name"]}]}`, `the tool wants "name", which a request need not have`},
		{"none of several", `{"oneOf":[{"required":["name"]},{"type":"string"}]}`, "the tool takes string, the job type has object"},
		{"never", `{"properties":{"text":false}}`, "/text: the tool takes no such field"},
	} {
		if got := said(Takes(json.RawMessage(c.tool), json.RawMessage(job))); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestGives(t *testing.T) {
	const result = `{"type":"object","additionalProperties":false,"required":["score","by"],"properties":{
		"score":{"type":"number"},"note":{"type":"string"},"by":{"type":"object","required":["key","model"],"properties":{"key":{"type":"string"},"model":{"type":"string"}}}}}`
	for _, c := range []struct{ name, tool, want string }{
		{"the job type's own", result, ""},
		{"anything", `{}`, ""},
		{"any object", `{"type":"object"}`, ""},
		{"without what the node fills in", `{"properties":{"score":{"type":"integer"},"by":{"properties":{"model":{}}}}}`, ""},
		{"a text that may be one", `{"properties":{"score":{"type":["integer","null"]},"by":{"type":"object"}}}`, ""},
		{"in parts", `{"anyOf":[{"type":"object"}]}`, ""},

		{"another type", `{"type":"string"}`, "the tool gives string, the job type has object"},
		{"less", `{"type":"object","properties":{"greeting":{"type":"string"}}}`, `the tool does not give "score", which a result must have`},
		{"nothing", `{"type":"object","additionalProperties":false}`, `the tool does not give "score", which a result must have`},
		{"less below", `{"properties":{"score":{},"by":{"properties":{"key":{}}}}}`, `/by: the tool does not give "model", which a result must have`},
		{"more", `{"required":["extra"],"properties":{"score":{},"by":{}}}`, `the tool gives "extra", which a result may not have`},
		{"another type below", `{"properties":{"score":{"type":"string"},"by":{}}}`, "/score: the tool gives string, the job type has number"},
	} {
		if got := said(Gives(json.RawMessage(c.tool), json.RawMessage(result), "/by/key")); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzFit: no pair of schemas is too much.
func FuzzFit(f *testing.F) {
	f.Add([]byte(job), []byte(`{"properties":{"text":{"$ref":"#/properties/text"}}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if _, err := Compile(a); err != nil {
			return
		}
		if _, err := Compile(b); err != nil {
			return
		}
		_, _ = Takes(a, b), Gives(a, b)
	})
}
