package message

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
)

var update = flag.Bool("update", false, "write the published schemas")

func TestPublishedSchemasAreCurrent(t *testing.T) {
	for _, typ := range Types() {
		doc, err := schemaOf(typ)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("schema", typ.Tag()+".json")
		if *update {
			if err := os.WriteFile(file, doc, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if published, err := os.ReadFile(file); err != nil || !bytes.Equal(published, doc) {
			t.Errorf("%s is stale (%v): run go test -run Published -update", file, err)
		}
		var about struct {
			ID      string `json:"$id"`
			Version string `json:"version"`
			Tag     string `json:"tag"`
		}
		if err := json.Unmarshal(doc, &about); err != nil {
			t.Fatal(err)
		}
		if about.ID != "urn:yeto:agent-message:1.0.0:"+string(typ) || about.Version != "1.0.0" || about.Tag != "v0.0-control-pack" {
			t.Errorf("schema of %s is %+v", typ, about)
		}
	}
}

// published compiles all schemas with a validator that knows nothing of this
// package.
func published(t testing.TB) map[Type]*toolschema.Schema {
	t.Helper()
	all := map[Type]*toolschema.Schema{}
	for _, typ := range Types() {
		doc, err := schemaOf(typ)
		if err != nil {
			t.Fatal(err)
		}
		// A tool's schema may not name itself.
		bare := edit(t, string(doc), "$id", nil)
		if all[typ], err = toolschema.Compile([]byte(bare)); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
	}
	return all
}

func TestSchemasAgreeWithTheParser(t *testing.T) {
	schemas := published(t)
	for _, name := range []string{"query", "response", "error", "gap"} {
		doc := example(t, name)
		schema := schemas[Type(name)]
		if err := schema.Validate([]byte(doc)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if schema.Validate([]byte(printed(t, name))) == nil {
			t.Errorf("%s as printed is valid", name)
		}
		for _, c := range []struct {
			path  string
			value any
		}{
			{"id", nil},
			{"type", "event"},
			{"extra", 1},
			{"ttl", 0},
			{"payload.content", 7},
			{"payload.encoding", "x"},
			{"context.locale", nil},
			{"evidence.confidence", 101},
			{"timestamp", "2025-01-29T10:30:00"},
		} {
			if schema.Validate([]byte(edit(t, doc, c.path, c.value))) == nil {
				t.Errorf("%s: the schema accepts %s = %v", name, c.path, c.value)
			}
		}
	}
	text := edit(t, edit(t, example(t, "query"), "payload.format", "text"), "payload.content", "What?")
	if err := schemas[TypeQuery].Validate([]byte(text)); err != nil {
		t.Error(err)
	}
}
