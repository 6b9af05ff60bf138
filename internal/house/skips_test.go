package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// skipping are the methods by which a test leaves itself out.
var skipping = []string{"Skip", "Skipf", "SkipNow"}

// TestNoTestLeavesItselfOut: only internal/testclass ends a test before it has tested
// anything, for it tells of that at the end of a run. A generator of rapid may drop
// an action, and a test that another one starts as a child says so.
func TestNoTestLeavesItselfOut(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testclass"}, d.Name()) {
			return firstError(err, filepath.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && !generates(f) {
				ast.Inspect(f, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && skips(call) {
						t.Errorf("%s leaves a test out by itself: use internal/testclass", set.Position(call.Pos()))
					}
					return true
				})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// generates says whether the function has a parameter of type *rapid.T.
func generates(f *ast.FuncDecl) bool {
	return slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool {
		star, ok := p.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		of, ok := star.X.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		name, named := of.X.(*ast.Ident)
		return named && name.Name == "rapid"
	})
}

func skips(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(skipping, method.Sel.Name) {
		return false
	}
	of, ok := method.X.(*ast.Ident)
	if !ok || of.Name != "t" && of.Name != "tb" && of.Name != "b" && of.Name != "f" {
		return false
	}
	if len(call.Args) == 1 {
		why, ok := call.Args[0].(*ast.BasicLit)
		return !ok || why.Value != `"run by another test"`
	}
	return true
}
