package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// event is one line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Key     string
	Value   string
	Output  string

	ImportPath  string // of build-output, which has no Package
	FailedBuild string // of a package that did not compile: the ImportPath of its output
}

type testID struct{ pkg, test string }

func (t testID) String() string {
	pkg := strings.TrimPrefix(strings.TrimPrefix(t.pkg, "github.com/lightwork-market/lightwork"), "/")
	return strings.TrimSuffix(pkg+"."+t.test, ".")
}

// matrix has the lines covered by one run of the tests.
type matrix struct {
	covers map[string][]testID // by line, passing tests in the order they ended
	failed []failure
}

// failure is a failed test and the end of its output.
type failure struct {
	test   testID
	output string
}

// maxOutput bounds the output of one test that is kept and printed, in bytes.
const maxOutput = 8 << 10

// lastOf returns the end of a test's output, which has the verdict.
func lastOf(output string) string {
	if len(output) <= maxOutput {
		return output
	}
	output = output[len(output)-maxOutput:]
	if _, whole, cut := strings.Cut(output, "\n"); cut {
		output = whole
	}
	return "    (what came before is left out)\n" + output
}

// read reads the events of a run. A line is covered if a test that names it has
// passed: a test that is skipped, fails or never ends covers nothing.
func read(r io.Reader) (*matrix, error) {
	m := &matrix{covers: map[string][]testID{}}

	claims := map[testID][]string{}
	outputs := map[testID]string{}
	dec := json.NewDecoder(r)
	for {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the events of go test -json: %w", err)
		}

		id := testID{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			id.pkg = e.ImportPath
			fallthrough
		case "output":
			outputs[id] = lastOf(outputs[id] + e.Output)
		case "attr":
			if e.Key == requirements.AttrKey {
				claims[id] = append(claims[id], e.Value)
			}
		case "pass":
			for _, line := range claims[id] {
				if !slices.Contains(m.covers[line], id) {
					m.covers[line] = append(m.covers[line], id)
				}
			}
			delete(outputs, id)
		case "skip":
			delete(outputs, id)
		case "fail":
			m.failed = append(m.failed, failure{id, outputs[testID{pkg: e.FailedBuild}] + outputs[id]})
			delete(outputs, id)
		}
	}
}

// parts are the rows of the matrix, in the order of the document.
var parts = []struct{ letters, title string }{
	{"OA", "OpenAgents protocol surface"},
	{"OS", "OpenSentience runtime"},
	{"AP", "AgentOS pipeline"},
	{"AN", "gateway runtime"},
	{"YE", "messages with evidence"},
	{"K", "conflicts decided"},
	{"M", "mappings"},
	{"X", "upstream gap-fillers"},
	{"PT", "performance targets"},
}

// part returns the row of a line: its letters, with all the gap-fillers (OSX, APX,
// ANX, YEX) in one row.
func part(id string) string {
	letters, _, _ := strings.Cut(id, "-")
	if strings.HasSuffix(letters, "X") {
		return "X"
	}
	return letters
}

func (m *matrix) print(w io.Writer, lines []requirements.Line, list bool) {
	if list {
		for _, l := range lines {
			fmt.Fprintln(w, strings.TrimSpace(fmt.Sprintf("%s %-10s %s", m.mark(l), l.ID, m.explain(l))))
		}
		fmt.Fprintln(w, "\n+ covered, ~ covered but for what comes later, is settled or not carried, o tested but carried by no program, . later, = settled, - not covered")
	}

	tw := tabwriter.NewWriter(w, 2, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "part\tcovered\tin part\tnot carried\tlater\tsettled\tnot covered\ttotal\t")

	all := map[string]int{}
	for _, p := range parts {
		row := map[string]int{}
		for _, l := range lines {
			if part(l.ID) != p.letters {
				continue
			}
			for _, counts := range []map[string]int{row, all} {
				counts[m.mark(l)]++
				counts["total"]++
			}
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", p.letters, row["+"], row["~"], row["o"], row["."], row["="], row["-"], row["total"], p.title)
	}

	fmt.Fprintf(tw, "all\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", all["+"], all["~"], all["o"], all["."], all["="], all["-"], all["total"])
	_ = tw.Flush()
}

// mark returns the state of a line as one character.
func (m *matrix) mark(l requirements.Line) string {
	covered := len(m.covers[l.ID]) > 0
	switch {
	case covered && l.InPart:
		return "~"
	case covered && l.NotCarried != "":
		return "o"
	case covered:
		return "+"
	case l.Later != "" && !l.InPart:
		return "."
	case l.Settled != "" && !l.InPart:
		return "="
	}

	return "-"
}

// explain lists the tests that cover a line, and why it is not covered completely.
func (m *matrix) explain(l requirements.Line) string {
	var words []string
	if by := m.covers[l.ID]; len(by) > 0 {
		words = append(words, by[0].String())
		if len(by) > 1 {
			words = append(words, fmt.Sprintf("and %d more", len(by)-1))
		}
	}

	if l.Later != "" {
		words = append(words, "(later: "+l.Later+")")
	}
	if l.Settled != "" {
		words = append(words, "(settled: "+l.Settled+")")
	}
	if l.NotCarried != "" {
		words = append(words, "(not carried: "+l.NotCarried+")")
	}
	return strings.Join(words, " ")
}
