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
