// Package requirements lets a test name the specification lines it checks.
//
// The lines are listed in docs/requirements.md. `make requirements` runs the
// tests and prints which lines a passing test covers.
package requirements

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// attrKey is the test attribute the coverage report looks for.
const attrKey = "covers"

var line = regexp.MustCompile(`(?m)^- ([A-Z]+-[A-Za-z0-9.]+) (?:\[([^\]]+)\] )?`)

// Covers records that t checks the named lines, for example "OS-2.2.1". An
// unknown id fails the test, so a typing error cannot pass for coverage.
func Covers(t *testing.T, ids ...string) {
	t.Helper()
	known, err := lines()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if !known[id] {
			t.Fatalf("docs/requirements.md has no line %q", id)
		}
		t.Attr(attrKey, id)
	}
}

var lines = sync.OnceValues(func() (map[string]bool, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, m := range line.FindAllSubmatch(text, -1) {
		ids[string(m[1])] = true
	}
	return ids, nil
})

// moduleRoot walks up from the test's directory to the folder with go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find module root: no go.mod above the working directory")
		}
		dir = up
	}
}
