package house

import (
	"os"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestUnreachedHasReasons: each function that no program reaches says why it stays,
// and the lines that are not carried are marked so in docs/develop/requirements.md. make
// check compares the names with what the programs reach.
func TestUnreachedHasReasons(t *testing.T) {
	text, err := os.ReadFile("unreached.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := requirements.Read()
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]bool{} // true once a function is found
	for _, l := range all {
		if l.NotCarried != "" {
			marked[l.ID] = false
		}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, _ := strings.Cut(line, "\t")
		class, what, _ := strings.Cut(why, ": ")
		if what == "" || class != "API" && class != "tests" && class != "not carried" {
			t.Errorf("%s has no reason: API, tests or not carried, a colon, and why", name)
		}
		if class != "not carried" {
			continue
		}
		for id := range strings.SplitSeq(what, ", ") {
			if _, ok := marked[id]; !ok {
				t.Errorf("%s is said to be for %s, which docs/develop/requirements.md does not mark as not carried", name, id)
			}
			marked[id] = true
		}
	}
	for id, found := range marked {
		if !found {
			t.Errorf("docs/develop/requirements.md marks %s as not carried, and no function of it is listed", id)
		}
	}
}
