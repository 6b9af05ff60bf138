package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestEveryActionHasWords: no action of the rooms below is shown in braces.
func TestEveryActionHasWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../advice/action.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, decl := range file.Decls {
		consts, ok := decl.(*ast.GenDecl)
		if !ok || consts.Tok != token.CONST {
			continue
		}
		for _, spec := range consts.Specs {
			lit := spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
			action, err := strconv.Unquote(lit.Value)
			if err != nil || found[action] {
				t.Fatalf("%s: there twice (%v)", lit.Value, err)
			}
			found[action] = true
			if said := Say(action); said == action || strings.ContainsAny(said, "{}") {
				t.Errorf("%s is said as %q", action, said)
			}
		}
	}
	for action := range words {
		if !found[action] {
			t.Errorf("%s is no action", action)
		}
	}
	if len(found) < 30 {
		t.Errorf("%d actions were found", len(found))
	}
}

// TestSpellSaysActions: a hint of a room below ends as a command that can be copied.
func TestSpellSaysActions(t *testing.T) {
	g := &Globals{Config: "other.yaml"}
	if got := g.Spell("{check} looks, {name-role} names the role"); !strings.Contains(got, " -c other.yaml doctor looks, --role names the role") {
		t.Errorf("spelt as %q", got)
	}
}
