// Package verifyjs_test builds the TypeScript verifier from its sources, runs
// its own tests, and holds it against the Go one.
package verifyjs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
	"github.com/lightwork-market/lightwork/interop/outside"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/schemas"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// build compiles the sources in a folder of the test's own.
func build(t *testing.T) string {
	t.Helper()
	return outside.Compile(t, ".", "src", "test", "fuzz", "page", "scripts")
}

func run(t *testing.T, dir, program string, args ...string) ([]byte, error) {
	t.Helper()
	vectors, err := filepath.Abs("../../receipts/testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := filepath.Abs("../../schemas/testdata/sandbox_requests.json")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LIGHTWORK_VECTORS="+vectors, "LIGHTWORK_SANDBOX_REQUESTS="+requests)
	cmd.WaitDelay = time.Second // a child may hold the output open
	return cmd.CombinedOutput()
}

func TestVerifier(t *testing.T) {
	dir := build(t)
	var pageTested bool
	t.Run("its own tests", func(t *testing.T) {
		out, err := run(t, dir, "npm", "test")
		if err != nil {
			t.Fatalf("npm test: %v\n%s", err, out)
		}
		pageTested = !bytes.Contains(out, []byte("chromium is not installed"))
	})
	t.Run("the page", func(t *testing.T) {
		testclass.RequireOneOf(t, "chromium", "chromium-browser", "google-chrome")
		if !pageTested {
			t.Error("the tests of the page did not run, though a browser is here")
		}
	})
	t.Run("agrees with the Go verifier", func(t *testing.T) { agrees(t, dir) })
}

// agrees runs the seeds that once found a difference, and some more.
func agrees(t *testing.T, dir string) {
	verifier := filepath.Join(dir, "lightwork-verify")
	if out, err := run(t, ".", "go", "build", "-o", verifier, "../../cmd/lightwork-verify"); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := run(t, dir, "node", "dist/fuzz/differential.js", "--go", verifier, "--seeds", "fuzz/seeds.json", "--n", "300")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// annotations say nothing that is checked: the generator leaves them out.
var annotations = []string{"$id", "$schema", "title", "description"}

// The embedded schemas are those that the node has now.
func TestSchemasAreCurrent(t *testing.T) {
	embedded := readEmbedded(t)
	all := schemas.All()
	if len(embedded) != len(all) {
		t.Fatalf("%d schemas are embedded, there are %d", len(embedded), len(all))
	}
	for _, s := range all {
		got := embedded[string(s.ID)]
		for side, doc := range map[string]json.RawMessage{"input": s.InputSchema(), "output": s.OutputSchema()} {
			if want := bare(decode(t, doc)); !reflect.DeepEqual(got[side], want) {
				t.Errorf("%s %s is out of date: run npm run schemas", s.ID, side)
			}
		}
	}
}

// readEmbedded reads src/schemas.gen.ts: a line for each id, and each side.
func readEmbedded(t *testing.T) map[string]map[string]any {
	t.Helper()
	source, err := os.ReadFile("src/schemas.gen.ts")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	var id string
	lines := bufio.NewScanner(bytes.NewReader(source))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSuffix(strings.TrimSpace(lines.Text()), ",")
		if name, ok := strings.CutPrefix(line, `["`); ok {
			id = strings.TrimSuffix(name, `", {`)
			found[id] = map[string]any{}
		}
		if side, doc, ok := strings.Cut(line, ": {"); ok && (side == "input" || side == "output") {
			found[id][side] = decode(t, []byte("{"+doc))
		}
	}
	return found
}

func decode(t *testing.T, doc []byte) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(doc, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// bare takes the annotations out of a schema and those below it.
func bare(schema map[string]any) map[string]any {
	for _, name := range annotations {
		delete(schema, name)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, below := range properties {
		bare(below.(map[string]any))
	}
	for _, name := range []string{"items", "additionalProperties", "propertyNames"} {
		if below, ok := schema[name].(map[string]any); ok {
			bare(below)
		}
	}
	return schema
}
