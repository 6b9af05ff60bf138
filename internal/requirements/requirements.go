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

// AttrKey is the test attribute that names a covered line.
const AttrKey = "covers"

var line = regexp.MustCompile(`(?m)^- ([A-Z]+-[A-Za-z0-9.]+) (?:\[([^\]]+)\] )?(.*)$`)

// Line is one line of docs/requirements.md.
type Line struct {
	ID    string // "OS-2.2.1"
	Level string // "MUST", "FIELD"; "" for K, M and X lines
	Text  string
}

// Parse reads the lines of a requirements document in their order.
func Parse(doc []byte) []Line {
	var all []Line
	for _, m := range line.FindAllSubmatch(doc, -1) {
		all = append(all, Line{string(m[1]), string(m[2]), string(m[3])})
	}
	return all
}

// Read reads the lines of this module's docs/requirements.md.
func Read() ([]Line, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		return nil, err
	}
	return Parse(doc), nil
}

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
		t.Attr(AttrKey, id)
	}
}

var lines = sync.OnceValues(func() (map[string]bool, error) {
	all, err := Read()
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, l := range all {
		ids[l.ID] = true
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
