package house

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestArchitectureDrawsTheStates: the two diagrams have the states of a job and of a
// purchase, and the steps between them that the tables of both allow; no other.
func TestArchitectureDrawsTheStates(t *testing.T) {
	page, err := os.ReadFile("../../docs/develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	diagrams := regexp.MustCompile("(?s)```mermaid\nstateDiagram-v2\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(diagrams) != 2 {
		t.Fatalf("%d diagrams of states", len(diagrams))
	}

	for i, want := range [][]string{
		steps(job.States(), job.State.Leads),
		steps(purchase.States(), purchase.State.Leads),
	} {
		drawn := map[string]bool{}
		for line := range strings.SplitSeq(strings.TrimSpace(diagrams[i][1]), "\n") {
			step, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			from, to, ok := strings.Cut(step, " --> ")
			if !ok {
				t.Fatalf("%q is no arrow", line)
			}
			if from != "[*]" && to != "[*]" {
				drawn[step] = true
			}
		}
		if got := slices.Sorted(maps.Keys(drawn)); !slices.Equal(got, want) {
			t.Errorf("architecture.md draws %q; the table has %q", got, want)
		}
	}
}

// steps are the arrows between the states, sorted.
func steps[State ~string](states []State, leads func(from, to State) bool) (arrows []string) {
	for _, from := range states {
		for _, to := range states {
			if leads(from, to) {
				arrows = append(arrows, string(from)+" --> "+string(to))
			}
		}
	}
	slices.Sort(arrows)
	return arrows
}

// TestArchitectureNamesEveryRoom: the table of rooms has each package, or a folder
// that it is in.
func TestArchitectureNamesEveryRoom(t *testing.T) {
	page, err := os.ReadFile("../../docs/develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/-]+)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
	}
	for room := range rooms {
		dir := room
		for dir != "." && !named[dir] {
			dir = filepath.Dir(dir)
		}
		if dir == "." {
			t.Errorf("architecture.md does not say what belongs into %s", room)
		}
	}
}
