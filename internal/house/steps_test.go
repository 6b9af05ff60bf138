package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
)

// TestArchitectureDrawsTheSteps: the first diagram has an arrow for each step that a
// job may take, and no other.
func TestArchitectureDrawsTheSteps(t *testing.T) {
	page, err := os.ReadFile("../../docs/develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	diagram := regexp.MustCompile("(?s)```mermaid\nstateDiagram-v2\n(.*?)```").FindStringSubmatch(string(page))
	if diagram == nil {
		t.Fatal("no diagram of states")
	}
	var drawn []string
	for line := range strings.SplitSeq(strings.TrimSpace(diagram[1]), "\n") {
		arrow, _, _ := strings.Cut(line, ":")
		drawn = append(drawn, strings.TrimSpace(arrow))
	}

	for _, from := range job.States() {
		for _, to := range job.States() {
			arrow := string(from) + " --> " + string(to)
			if got := slices.Contains(drawn, arrow); got != from.Leads(to) {
				t.Errorf("%s: drawn %v, the table says %v", arrow, got, from.Leads(to))
			}
		}
		if end := string(from) + " --> [*]"; slices.Contains(drawn, end) != from.Terminal() {
			t.Errorf("%s: drawn %v, the table says %v", end, !from.Terminal(), from.Terminal())
		}
	}
}

// TestArchitectureNamesTheSteps: the table of a job's states has the step that the flow
// of a provider takes in each, and no other.
func TestArchitectureNamesTheSteps(t *testing.T) {
	source, err := os.ReadFile("../../provider/internal/flow/steps.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\tjob\.State(\w+): +\(\*actor\)\.(\w+),$`).FindAllStringSubmatch(string(source), -1) {
		want[strings.ToLower(m[1])] = m[2]
	}
	if len(want) == 0 {
		t.Fatal("the flow has no steps")
	}

	for _, state := range job.States() {
		if state == job.StateRefused {
			continue // nothing comes of it: it has no row
		}
		row := regexp.MustCompile("(?m)^\\|[^|\n]*`" + string(state) + "`[^|\n]*\\| *`?(\\w*)`? *\\|").FindStringSubmatch(string(page))
		switch {
		case row == nil:
			t.Errorf("%s has no row", state)
		case row[1] != want[string(state)]:
			t.Errorf("%s: the table has the step %q, flow %q", state, row[1], want[string(state)])
		}
	}
}
