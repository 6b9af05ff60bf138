package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// statesIn are the values of the constants of type State that a package declares.
func statesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			of, isNamed := spec.Type.(*ast.Ident)
			value, isText := spec.Values[0].(*ast.BasicLit)
			if !isNamed || of.Name != "State" || !isText {
				return true
			}
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
			return true
		})
	}
	slices.Sort(all)
	return all
}

// TestArchitectureDrawsTheStates: the two diagrams have the states of a job and of a
// purchase, and no other.
func TestArchitectureDrawsTheStates(t *testing.T) {
	page, err := os.ReadFile("../../docs/develop/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	diagrams := regexp.MustCompile("(?s)```mermaid\nstateDiagram-v2\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(diagrams) != 2 {
		t.Fatalf("%d diagrams of states", len(diagrams))
	}

	for i, side := range [][]string{{"market/job", "provider"}, {"buyer"}} {
		drawn := map[string]bool{}
		for line := range strings.SplitSeq(strings.TrimSpace(diagrams[i][1]), "\n") {
			edge, _, _ := strings.Cut(line, ":")
			from, to, ok := strings.Cut(strings.TrimSpace(edge), " --> ")
			if !ok {
				t.Fatalf("%q is no arrow", line)
			}
			drawn[from], drawn[to] = true, true
		}
		delete(drawn, "[*]")

		var want []string
		for _, dir := range side {
			want = append(want, statesIn(t, dir)...)
		}
		if len(want) == 0 {
			t.Fatalf("%v declare no states", side)
		}
		if got := slices.Sorted(maps.Keys(drawn)); !slices.Equal(got, slices.Compact(slices.Sorted(slices.Values(want)))) {
			t.Errorf("architecture.md draws %v; %v declare %v", got, side, want)
		}
	}
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
