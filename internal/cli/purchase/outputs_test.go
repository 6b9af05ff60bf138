package purchase

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// contents is a store that has one content.
type contents struct {
	buyer.Store
	data []byte
}

func (c contents) Content(context.Context, hashing.Digest) ([]byte, error) { return c.data, nil }

// TestFilesStayInTheirFolder: the names of artifacts are the provider's, and lead
// neither out of the folder nor over what is in it. A job that names one RESULT.json
// takes nothing from the result, and one bad name nothing from the other artifacts.
func TestFilesStayInTheirFolder(t *testing.T) {
	for name, ok := range map[string]bool{
		"answer":         true,
		"deep/er/answer": true,
		"../answer":      false,
		"/tmp/answer":    false,
		"a/../../answer": false,
		"RESULT.json":    true,
		"link/answer":    false,
		"":               false,
	} {
		dir := t.TempDir()
		files := filepath.Join(dir, "files")
		if err := os.MkdirAll(filepath.Join(files, "artifacts"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, filepath.Join(files, "artifacts", "link")); err != nil {
			t.Fatal(err)
		}
		output, err := json.Marshal(schemas.SandboxRunResult{Artifacts: []schemas.SandboxArtifact{
			{Path: name, SHA256: hashing.Bytes([]byte("42"))}, {Path: "last", SHA256: hashing.Bytes([]byte("42"))},
		}})
		if err != nil {
			t.Fatal(err)
		}
		p := buyer.Purchase{SchemaID: string(schemas.SandboxRun), Output: output}
		err = Outputs{Files: files}.writeFiles(t.Context(), contents{data: []byte("42")}, p)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(files, "artifacts", name)); ok && string(got) != "42" {
			t.Errorf("%q holds %q", name, got)
		}
		if got, _ := os.ReadFile(filepath.Join(files, "artifacts", "last")); string(got) != "42" {
			t.Errorf("beside %q, the last one holds %q", name, got)
		}
		if got, _ := os.ReadFile(filepath.Join(files, "RESULT.json")); string(got) != string(output) {
			t.Errorf("beside %q, the result is %q", name, got)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%q was written outside: %v, %v", name, left, err)
		}
	}
}
