package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// command finds a command line of ours in a text.
var command = regexp.MustCompile(`\blightwork (doctor|top|keys|relay|provider|buyer|jobs|agents|tools|receipts|wallet|policy|backup|restore|config|ask|pipeline|sandbox|demo|replay|schemas|init) ?|(^|[ (])--[a-z]+-?[a-z]*\b`)

// lndFlag is not ours: lnd has to be started with it.
const lndFlag = "--store-final-htlc-resolutions"

// ownWords are files that are of a command line themselves: the text of the configuration
// that lightwork init writes, the program lightwork agent, and a call of systemd's.
var ownWords = []string{"internal/config/template.go", "internal/node/builtin/main.go", "internal/node/builtin/scope.go"}

// TestPackagesKnowNoCommand: what the market's packages say is read in other programs
// too, as a page or a bridge, so it names no command and no flag. The command line adds
// those: as hints, and as its words for the actions of internal/advice.
func TestPackagesKnowNoCommand(t *testing.T) {
	for _, room := range []string{"buyer", "market", "receipts", "replay", "relay", "schemas", "payments", "lifecycle", "internal/store", "internal/config", "internal/node"} {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if slices.ContainsFunc(ownWords, func(own string) bool { return strings.HasSuffix(path, own) }) {
				return nil
			}

			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if found := command.FindString(text); err == nil && found != "" && !strings.Contains(text, lndFlag) {
					t.Errorf("%s says %q: it names a command or flag", fset.Position(lit.Pos()), text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
