package schemas

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// What a node refuses of a sandbox request its published schema refuses, and what it
// takes the schema takes. sdk/verify-js holds the same requests against ajv, and
// against its own rules.
func TestPublishedSchemaSaysWhatChecksSay(t *testing.T) {
	doc, err := os.ReadFile("testdata/sandbox_requests.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []map[string]json.RawMessage
	if err := json.Unmarshal(doc, &cases); err != nil {
		t.Fatal(err)
	}
	s, _ := Lookup(string(SandboxRun))
	published := compiled(t, s.InputSchema())
	for _, c := range cases {
		var request map[string]json.RawMessage
		if err := json.Unmarshal([]byte(minimal[SandboxRun]), &request); err != nil {
			t.Fatal(err)
		}
		maps.Copy(request, c)
		delete(request, "ok")
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := decodeTree(text)
		if err != nil {
			t.Fatal(err)
		}
		want := string(c["ok"]) == "true"
		if _, err := s.ParseRequest(text); (err == nil) != want {
			t.Errorf("%.200s: the node takes it: %v, want %v: %v", text, err == nil, want, err)
		}
		if err := published.Validate(tree); (err == nil) != want {
			t.Errorf("%.200s: the published schema takes it: %v, want %v: %v", text, err == nil, want, err)
		}
	}
}

// compiled is a document as any validator reads it.
func compiled(t *testing.T, doc json.RawMessage) *validator.Schema {
	t.Helper()
	tree, err := decodeTree(doc)
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("urn:published", tree); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("urn:published")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
