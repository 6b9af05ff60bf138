package schemas

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func lookup(t testing.TB, id ID) *Schema {
	t.Helper()
	s, ok := Lookup(string(id))
	if !ok {
		t.Fatalf("no schema %s", id)
	}
	return s
}

func TestLookup(t *testing.T) {
	modes := map[ID]Mode{
		CodeChunkAnalysis: Subjective, RetrievalRerank: Subjective, SandboxRun: Objective, Embedding: Objective,
		TextGeneration: Subjective,
	}
	if len(All()) != len(modes) {
		t.Errorf("%d schemas, want %d", len(All()), len(modes))
	}
	for id, mode := range modes {
		s := lookup(t, id)
		if s.ID != id || s.VerificationMode != mode || s.Title == "" {
			t.Errorf("%s: got %s, %s", id, s.ID, s.VerificationMode)
		}
		if parsed, err := ParseID(string(id)); err != nil || parsed != id {
			t.Errorf("ParseID(%s) = %s, %v", id, parsed, err)
		}
	}
	if s := lookup(t, "oa.embeddings.v1"); s.ID != Embedding {
		t.Errorf("alias finds %s", s.ID)
	}
	for _, id := range []string{"", "oa.sandbox_run.v2", "oa.sandbox_run", "OA.sandbox_run.v1", " oa.sandbox_run.v1"} {
		if s, ok := Lookup(id); ok {
			t.Errorf("Lookup(%q) finds %s", id, s.ID)
		}
	}
}

// TestNoJobHasSecrets: a request is signed and public, its hash is the job's. So
// nothing of it can be kept back (K-38), and nothing claims to be.
func TestNoJobHasSecrets(t *testing.T) {
	for _, s := range All() {
		for _, doc := range []json.RawMessage{s.InputSchema(), s.OutputSchema()} {
			if bytes.Contains(doc, []byte("writeOnly")) || bytes.Contains(doc, []byte("x-secret")) {
				t.Errorf("%s marks a secret: %s", s.ID, doc)
			}
		}
	}
}

func TestParseID(t *testing.T) {
	for _, s := range []string{"oa.repo_index.v1", "oa.media.transcode.v12"} {
		if id, err := ParseID(s); err != nil || id.String() != s {
			t.Errorf("ParseID(%q) = %q, %v", s, id, err)
		}
	}
	for _, s := range []string{
		"", "oa.v1", "oa.x", "oa.x.v0", "oa.x.v", "oa.X.v1", "oa..v1", "x.y.v1", "oa.x.v1\n", "oa.x.v1.y", "oa.x y.v1",
	} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %q", s, id)
		}
	}
}

func TestDocument(t *testing.T) {
	requirements.Covers(t, "OA-3.4")
	types := []string{"string", "number", "integer", "boolean", "array", "object"}
	for _, s := range All() {
		text, err := json.Marshal(s.Document())
		if err != nil {
			t.Fatal(err)
		}
		// Read back with the names of the specification, nothing else allowed.
		var doc struct {
			SchemaID string `json:"schema_id"`
			Inputs   map[string]struct {
				Type        string `json:"type"`
				Required    *bool  `json:"required"`
				Description string `json:"description"`
			} `json:"inputs"`
			Outputs map[string]struct {
				Type        string `json:"type"`
				Description string `json:"description"`
			} `json:"outputs"`
			VerificationMode string            `json:"verification_mode"`
			HashRules        map[string]string `json:"hash_rules"`
			Provenance       map[string]string `json:"provenance"`
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&doc); err != nil {
			t.Fatalf("%s: %v", s.ID, err)
		}
		if doc.SchemaID != string(s.ID) || doc.VerificationMode != string(s.VerificationMode) {
			t.Errorf("%s: %s, %s", s.ID, doc.SchemaID, doc.VerificationMode)
		}
		for name, f := range doc.Inputs {
			if !slices.Contains(types, f.Type) || f.Required == nil || f.Description == "" {
				t.Errorf("%s: input %s: %+v", s.ID, name, f)
			}
		}
		for name, f := range doc.Outputs {
			if !slices.Contains(types, f.Type) || f.Description == "" {
				t.Errorf("%s: output %s: %+v", s.ID, name, f)
			}
		}
		if h := doc.HashRules; len(h) != 3 || h["algorithm"] != "sha256" || h["canonicalization"] != "json_canonical" || h["scope"] != "full_output" {
			t.Errorf("%s: hash_rules %v", s.ID, h)
		}
		if p := doc.Provenance; len(p) != 4 || p["model"] != "required" || p["provider_id"] != "required" ||
			p["token_counts"] != "recommended" || p["sampling_params"] != "optional" {
			t.Errorf("%s: provenance %v", s.ID, p)
		}
	}
	doc := lookup(t, SandboxRun).Document()
	if f := doc.Inputs["commands"]; f.Type != "array" || !f.Required {
		t.Errorf("commands: %+v", f)
	}
	if f := doc.Inputs["repo"]; f.Type != "object" || f.Required {
		t.Errorf("repo: %+v", f)
	}
	if _, ok := doc.Outputs["artifacts"]; !ok {
		t.Error("no artifacts")
	}
}

// The documents stand alone: any 2020-12 validator can use them.
func TestSchemasAreStandalone(t *testing.T) {
	for _, s := range All() {
		for side, doc := range map[string]json.RawMessage{"input": s.InputSchema(), "output": s.OutputSchema()} {
			tree, err := validator.UnmarshalJSON(bytes.NewReader(doc))
			if err != nil {
				t.Fatal(err)
			}
			if tree.(map[string]any)["$schema"] != draft {
				t.Errorf("%s %s: no 2020-12 dialect", s.ID, side)
			}
			if bytes.Contains(doc, []byte(`"$ref"`)) {
				t.Errorf("%s %s has a $ref", s.ID, side)
			}
			if bytes.Contains(doc, []byte(`"null"`)) {
				t.Errorf("%s %s allows null", s.ID, side)
			}
			walkBounds(t, string(s.ID)+" "+side, tree)
			c := validator.NewCompiler()
			if err := c.AddResource("mem:doc", tree); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Compile("mem:doc"); err != nil {
				t.Errorf("%s %s: %v", s.ID, side, err)
			}
		}
	}
}

// walkBounds fails for an array, map or string without an upper bound, and for
// an object that lets unknown fields pass.
func walkBounds(t *testing.T, at string, node any) {
	schema, ok := node.(map[string]any)
	if !ok {
		return
	}
	has := func(key string) bool { _, ok := schema[key]; return ok }
	switch schema["type"] {
	case "array":
		if !has("maxItems") {
			t.Errorf("%s: array without maxItems", at)
		}
		walkBounds(t, at+"[]", schema["items"])
	case "string":
		if !has("maxLength") && !has("pattern") && !has("enum") && !strings.HasSuffix(at, ".repo.source") {
			t.Errorf("%s: string without a bound", at)
		}
	case "object":
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			if !has("maxProperties") {
				t.Errorf("%s: map without maxProperties", at)
			}
			walkBounds(t, at+"{}", schema["additionalProperties"])
			return
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: unknown fields pass", at)
		}
		for name, p := range properties {
			walkBounds(t, at+"."+name, p)
		}
	}
}

func TestRemoteReferencesAreRefused(t *testing.T) {
	if _, err := (noRemote{}).Load("https://example.com/schema"); err == nil {
		t.Error("a remote reference was loaded")
	}
}

// The offline verifier links this package, so neither it nor hashing may bring
// in a network, a subprocess or a database.
func TestLinksNoNetwork(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "../hashing").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"net", "os/exec", "database/sql", "crypto/tls", "net/http"} {
		if slices.Contains(strings.Fields(string(out)), forbidden) {
			t.Errorf("%s is linked", forbidden)
		}
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAgreementIsSaidInWords(t *testing.T) {
	for _, s := range All() {
		if s.Agrees() != (s.Agreement != "") {
			t.Errorf("%s: agrees %v, and says %q", s.ID, s.Agrees(), s.Agreement)
		}
	}
}
