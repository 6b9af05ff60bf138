package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// repoOf is a repository of short texts as a request carries it.
func repoOf(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for i := 0; i < len(files); i += 2 {
		err := tw.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))})
		if _, err2 := tw.Write([]byte(files[i+1])); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return schemas.InlineArchive(b.Bytes())
}

// TestSummaryOfChanges: a job that changes its repository leaves a summary made
// from the files, the same on every run; one that does not, or that writes its
// own, or is compared with others, gets none.
func TestSummaryOfChanges(t *testing.T) {
	source := repoOf(t, "a.txt", "one\ntwo\n", "gone", "x\n", "same", "y\n", "big", strings.Repeat("long\n", textBytes/4))
	edit := []string{`echo three >>a.txt; rm gone; chmod +x same; echo more >>big`, `mkdir -p .git d; echo h >.git/h; printf 'n' >'d/b|c'; ln -s /etc/passwd out; mkfifo pipe; exit 3`}
	hash := func(text string) string { return hashing.Bytes([]byte(text)).Hex() }
	want := []string{
		"2 added, 3 changed, 1 removed; +2 -1 lines, besides files that are no short text\n",
		"| changed | `\"a.txt\"` | 1 | 0 | " + hash("one\ntwo\n") + " | " + hash("one\ntwo\nthree\n") + " |\n",
		"| removed | `\"gone\"` | 0 | 1 | " + hash("x\n") + " |  |\n",
		"| changed | `\"same\"` | 0 | 0 | " + hash("y\n") + " | " + hash("y\n") + " (executable) |\n",
		"| added | `\"d/b\\x7cc\"` | 1 | 0 |  | " + hash("n") + " |\n",
		"| added | `\"out\"` |  |  |  | " + hash("/etc/passwd") + " (symlink) |\n",
		"| changed | `\"big\"` |  |  | ",
		"| PASS | `", "| FAIL | `", " | 3 |\n",
	}
	var first hashing.Digest
	for range 2 {
		opts := testOptions(t)
		opts.ArtifactDir = t.TempDir()
		r := run(t, request(t, map[string]any{"repo": map[string]any{"source": source}, "commands": commands(edit...)}), opts)
		if len(r.Artifacts) != 1 || r.Artifacts[0].Path != summaryName || r.Status != schemas.StatusFailed {
			t.Fatalf("%s, artifacts %+v", r.Status, r.Artifacts)
		}
		text, err := os.ReadFile(filepath.Join(opts.ArtifactDir, r.Artifacts[0].SHA256.Hex()))
		if err != nil || hashing.Bytes(text) != r.Artifacts[0].SHA256 {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(string(text), line) {
				t.Errorf("lacks %q:\n%s", line, text)
			}
		}
		if strings.Contains(string(text), ".git") && !strings.Contains(string(text), "mkdir") || strings.Contains(string(text), "pipe\"`") {
			t.Errorf("lists what is no work:\n%s", text)
		}
		if !first.IsZero() && first != r.Artifacts[0].SHA256 {
			t.Error("two runs, two summaries")
		}
		first = r.Artifacts[0].SHA256
	}
	for name, tt := range map[string]struct {
		fields map[string]any
		left   int
	}{
		"nothing changed": {map[string]any{"commands": commands("cat a.txt >/tmp/x")}, 0},
		"its own":         {map[string]any{"commands": commands("echo >>a.txt; mkdir $LIGHTWORK_ARTIFACTS/d; echo mine >$LIGHTWORK_ARTIFACTS/d/" + summaryName)}, 1},
		"compared":        {map[string]any{"commands": commands("echo >>a.txt"), "verification": map[string]any{"redundancy": 2, "adjudication": "majority_vote"}}, 0},
		"too large":       {map[string]any{"commands": commands(fmt.Sprintf("truncate -s %d huge", treeBytes+1)), "sandbox": map[string]any{"resources": map[string]any{"memory_mb": 64, "timeout_secs": 20, "disk_mb": 128}}}, 0},
		"a loop":          {map[string]any{"commands": commands("rm -r *; ln -s . loop; ln -s / root")}, 1},
		"locked":          {map[string]any{"commands": commands("mkdir d; echo >d/f; chmod 000 d a.txt")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tt.fields["repo"] = map[string]any{"source": source}
			r := run(t, request(t, tt.fields), testOptions(t))
			if r.Status != schemas.StatusSuccess || len(r.Artifacts) != tt.left {
				t.Errorf("%s %s, artifacts %+v", r.Status, r.Error, r.Artifacts)
			}
		})
	}
}

// TestSummaryIsBounded: many files with long names stay one short document.
func TestSummaryIsBounded(t *testing.T) {
	after := tree{}
	for i := range treeFiles {
		after[fmt.Sprintf("%05d%s", i, strings.Repeat("\x01`|", 300))] = treeFile{kind: 'f'}
	}
	doc := summarize(&plan{}, nil, tree{}, after)
	if len(doc) > 512<<10 || !strings.Contains(string(doc), fmt.Sprintf("and %d more\n", treeFiles-summaryRows)) || bytes.ContainsRune(doc, 1) {
		t.Errorf("%d bytes: %.500s", len(doc), doc)
	}
}

// TestTreeBlocksOnNothing: a pipe that nobody writes to is no file.
func TestTreeBlocksOnNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readTree(dir); len(got) != 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
