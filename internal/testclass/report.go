package testclass

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Class is one of the three classes of tests.
type Class string

const (
	Required    Class = "required"
	Long        Class = "long"
	Unreachable Class = "unavailable"
)

// Entry is one line of the report: a test that did not run, or only in part.
type Entry struct {
	Class  Class  `json:"class"`
	Test   string `json:"test"`
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// record appends an entry to the report of this run, if there is one. The name of
// the file is new in each run, so that go test never caches a skipped test: the
// missing program may be installed later.
func record(t testing.TB, class Class, why, remedy string) {
	t.Helper()
	path := os.Getenv(EnvReport)
	if path == "" {
		return
	}
	line, err := json.Marshal(Entry{class, testPackage() + " " + t.Name(), why, remedy})
	if err != nil {
		t.Fatal(err)
	}

	// A single write to a file opened for appending is not interleaved with others.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("write the report of tests: %v", err)
	}
	defer file.Close()

	if _, err := file.Write(append(line, '\n')); err != nil {
		t.Fatalf("write the report of tests: %v", err)
	}
}

// testPackage returns the folder of the tested package, relative to the module.
func testPackage() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "?"
	}
	return strings.TrimPrefix(strings.TrimSuffix(info.Path, ".test"), "github.com/lightwork-market/lightwork/")
}

// Read parses the report of a run.
func Read(doc []byte) ([]Entry, error) {
	var all []Entry
	lines := bufio.NewScanner(bytes.NewReader(doc))
	for lines.Scan() {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d of the report of tests: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}

// headings are the titles of each class in the table.
var headings = []struct {
	class        Class
	some, nobody string
}{
	{Required, "required, and did not run", "required: all ran"},
	{Long, "long, and ran in part", "long: all ran whole"},
	{Unreachable, "unavailable here", "unavailable: none"},
}

// Print prints the table of a run: for each class the reasons, each with its tests
// and with the remedy.
func Print(w io.Writer, all []Entry) error {
	var b bytes.Buffer
	for _, h := range headings {
		var reasons []Entry // without their tests
		tests := map[Entry][]string{}
		for _, e := range all {
			if e.Class != h.class {
				continue
			}
			reason := Entry{Class: e.Class, Why: firstLine(e.Why), Remedy: e.Remedy}
			if tests[reason] == nil {
				reasons = append(reasons, reason)
			}
			if !slices.Contains(tests[reason], e.Test) {
				tests[reason] = append(tests[reason], e.Test)
			}
		}

		if len(reasons) == 0 {
			fmt.Fprintf(&b, "%s\n", h.nobody)
			continue
		}
		fmt.Fprintf(&b, "%s:\n", h.some)

		for _, r := range reasons {
			fmt.Fprintf(&b, "  %s", r.Why)
			if r.Remedy != "" {
				fmt.Fprintf(&b, "   -> %s", r.Remedy)
			}
			fmt.Fprintln(&b)
			slices.Sort(tests[r])
			for _, test := range shortened(tests[r]) {
				fmt.Fprintf(&b, "      %s\n", test)
			}
		}
	}

	_, err := w.Write(b.Bytes())
	return err
}

// mostTests bounds the tests that the table names for one reason.
const mostTests = 12

func shortened(tests []string) []string {
	if len(tests) <= mostTests {
		return tests
	}
	return append(slices.Clone(tests[:mostTests-1]), fmt.Sprintf("and %d more", len(tests)-mostTests+1))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
