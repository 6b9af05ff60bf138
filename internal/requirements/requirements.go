// Package requirements lets a test name the specification lines it checks.
//
// The lines are listed in docs/develop/requirements.md. `make requirements` runs the
// tests and prints which lines a passing test covers.
package requirements

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// AttrKey is the test attribute that names a covered line.
const AttrKey = "covers"

var (
	line  = regexp.MustCompile(`(?m)^- ([A-Z]+-[A-Za-z0-9.]+) (?:\[([^\]]+)\] )?(.*)$`)
	apart = regexp.MustCompile(`(?m)^- (partly )?(later|settled|not carried) ([A-Z][A-Za-z0-9.*, -]*): (.*)$`)
)

// Line is one line of docs/develop/requirements.md.
type Line struct {
	ID    string // "OS-2.2.1"
	Level string // "MUST", "FIELD"; "" for K, M and X lines
	Text  string
	// Later says what must come before the line is built, Settled which decision
	// leaves it out; "" for other lines. If either applies only in part, the rest
	// is built and may be covered by a test.
	Later, Settled string
	// NotCarried says why no program uses the code that the line's tests check:
	// such a line is tested but does not count as covered.
	NotCarried string
	InPart     bool
}

// Parse returns the lines of a requirements document, in order.
func Parse(doc []byte) []Line {
	var all []Line
	for _, m := range line.FindAllSubmatch(doc, -1) {
		all = append(all, Line{ID: string(m[1]), Level: string(m[2]), Text: string(m[3])})
	}
	for _, m := range apart.FindAllSubmatch(doc, -1) {
		for name := range strings.SplitSeq(string(m[3]), ", ") {
			mark(all, name, string(m[2]), string(m[4]), len(m[1]) > 0)
		}
	}
	return all
}

// mark marks the line with a name or, if the name ends in *, all lines with that
// prefix.
func mark(all []Line, name, how, why string, inPart bool) {
	start, many := strings.CutSuffix(name, "*")
	for i := range all {
		if all[i].ID != name && (!many || !strings.HasPrefix(all[i].ID, start)) {
			continue
		}
		all[i].InPart = inPart

		switch how {
		case "later":
			all[i].Later = why
		case "settled":
			all[i].Settled = why
		default:
			all[i].NotCarried = why
		}
	}
}

// Read returns the lines of this module's docs/develop/requirements.md.
func Read() ([]Line, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "develop", "requirements.md"))
	if err != nil {
		return nil, err
	}
	return Parse(doc), nil
}

// Covers records that t checks the named lines, for example "OS-2.2.1". An
// unknown id fails the test, so a typing error cannot pass for coverage.
func Covers(t *testing.T, ids ...string) {
	t.Helper()
	all, err := lines()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if !all[id] {
			t.Fatalf("docs/develop/requirements.md has no line %q", id)
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
