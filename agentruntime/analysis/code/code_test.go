package code

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lightwork-market/lightwork/schemas"
)

var update = flag.Bool("update", false, "write what the analyser finds into testdata; read it before you keep it")

// Each file of testdata is a task, a source and what is found in it.
func TestLanguages(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			task, source := archive.Files[0], archive.Files[1]
			req := request(t, map[string]any{
				"task": strings.TrimSpace(string(task.Data)),
				"chunk": map[string]any{
					"path": source.Name, "start_line": 11, "end_line": 10 + bytes.Count(source.Data, []byte("\n")),
					"content": string(source.Data),
				},
			})
			got := print(answer(t, req))
			if *update {
				archive.Files = append(archive.Files[:2], txtar.File{Name: "found", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(string(archive.Files[2].Data), got); d != "" {
				t.Error(d)
			}
		})
	}
}

// print has a line for each finding.
func print(r *schemas.CodeChunkResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nconfidence %v, tokens %d\n", strings.ReplaceAll(r.Summary, ". ", ".\n"), r.Confidence, r.Provenance.Tokens.Input)
	for _, s := range r.Symbols {
		fmt.Fprintf(&b, "%d: %s %s: %s\n", s.Line, s.Kind, s.Name, s.Description)
	}
	for _, f := range r.SuspectedFaults {
		fmt.Fprintf(&b, "%d: %s: %s; %s\n", f.Line, f.Severity, f.Description, f.Suggestion)
	}
	for _, p := range r.RecommendedNextProbes {
		fmt.Fprintf(&b, "see %s: %s (%s)\n", p.Path, p.Reason, p.Priority)
	}
	return strings.ReplaceAll(b.String(), ": \n", ":\n")
}

func request(t testing.TB, doc map[string]any) *schemas.Request {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.CodeChunkAnalysis))
	req, err := schema.ParseRequest(text)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// answer checks a result as its buyer would.
func answer(t testing.TB, req *schemas.Request) *schemas.CodeChunkResult {
	t.Helper()
	r := Analyse(req.Value.(*schemas.CodeChunkRequest))
	if r.Provenance.ModelID != Model {
		t.Errorf("model %q", r.Provenance.ModelID)
	}
	finished := *r
	finished.Provenance.ProviderPubkey = strings.Repeat("ab", 32)
	doc, err := json.Marshal(finished)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.CodeChunkAnalysis))
	result, err := schema.ParseResult(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.CheckResult(result); err != nil {
		t.Fatal(err)
	}
	return r
}
