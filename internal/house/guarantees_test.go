package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestGuaranteesHaveTests: each named guarantee of the pipeline has a test that
// says so (AP-0.1).
func TestGuaranteesHaveTests(t *testing.T) {
	requirements.Covers(t, "AP-0.1")
	claims := claimed(t, filepath.Join("..", ".."))
	lines, err := requirements.Read()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, l := range lines {
		if l.Level != "GUAR" || !strings.HasPrefix(l.ID, "AP-") {
			continue
		}
		found++
		if !claims[l.ID] {
			t.Errorf("no test covers %s: %s", l.ID, l.Text)
		}
	}
	if found < 20 {
		t.Errorf("only %d guarantees were found", found)
	}
}

// claimed are the ids that the tests below a folder name in Covers.
func claimed(t *testing.T, root string) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return firstError(err, filepath.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if called, ok := call.Fun.(*ast.SelectorExpr); !ok || called.Sel.Name != "Covers" {
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					id, _ := strconv.Unquote(lit.Value)
					ids[id] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func firstError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// TestMarksAreCurrent: what is marked as later or settled, all of it, is covered
// by no test: else the mark is out of date.
func TestMarksAreCurrent(t *testing.T) {
	claims := claimed(t, filepath.Join("..", ".."))
	lines, err := requirements.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if why := l.Later + l.Settled; why != "" && !l.InPart && claims[l.ID] {
			t.Errorf("%s is covered, and marked: %s", l.ID, why)
		}
	}
}
