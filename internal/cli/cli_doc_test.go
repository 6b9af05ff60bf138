package cli

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lightwork-market/lightwork/internal/config"
)

var inCode = regexp.MustCompile("`([^`]+)`")

// tableRows are the cells of the table in docs/use/cli.md whose heading begins so.
func tableRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(readDoc(t, "use/cli.md"), "\n| "+heading+" |")
	if !ok {
		t.Fatalf("docs/use/cli.md has no table of %s", heading)
	}
	for _, line := range strings.Split(rest, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "\x00", "|")
		}
		rows = append(rows, cells[1:])
	}
	return rows
}

// expand writes out what a printed command stands for: `jobs list|show ID` is
// two. What is no word of a command ends it.
func expand(printed string) []string {
	paths := []string{""}
	for word := range strings.FieldsSeq(printed) {
		if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-|") != "" || word[0] == '-' {
			break
		}
		var longer []string
		for _, p := range paths {
			for alternative := range strings.SplitSeq(word, "|") {
				longer = append(longer, strings.TrimSpace(p+" "+alternative))
			}
		}
		paths = longer
	}
	return paths
}

// TestDocsHaveEveryCommand, and no other.
func TestDocsHaveEveryCommand(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Vars{"version": "dev"})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{} // true: it can be run
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				p := strings.TrimSpace(path + " " + child.Name)
				known[p] = child.Leaf()
				walk(child, p)
			}
		}
	}
	walk(parser.Model.Node, "")
	var told []string
	for _, row := range tableRows(t, "command") {
		for _, m := range inCode.FindAllStringSubmatch(row[0], -1) {
			told = append(told, expand(m[1])...)
		}
	}
	for _, path := range told {
		if _, ok := known[path]; !ok {
			t.Errorf("docs/use/cli.md tells of %q, which is no command", path)
		}
	}
	for path, runs := range known {
		if runs && !slices.Contains(told, path) {
			t.Errorf("docs/use/cli.md does not tell of %q", path)
		}
	}
}

// hasKeys reports a struct that is written as keys; others read their own text.
func hasKeys(of reflect.Type) bool {
	if of.Kind() != reflect.Struct {
		return false
	}
	for field := range of.Fields() {
		if _, ok := field.Tag.Lookup("yaml"); ok {
			return true
		}
	}
	return false
}

// configKeys are the keys that a configuration may have, false for a group.
func configKeys(of reflect.Type, path string, keys map[string]bool) {
	if of.Kind() == reflect.Slice && hasKeys(of.Elem()) {
		of, path = of.Elem(), path+"[]"
	}
	if path != "" {
		keys[path] = !hasKeys(of)
	}
	if !hasKeys(of) {
		return
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		configKeys(field.Type, strings.TrimPrefix(path+"."+name, "."), keys)
	}
}

// TestDocsHaveEveryConfigKey, and no other. A key that stands behind another in a
// row is its neighbour; what a row says of a group may name the group's keys.
func TestDocsHaveEveryConfigKey(t *testing.T) {
	all := map[string]bool{}
	configKeys(reflect.TypeFor[config.Config](), "", all)
	wallet := regexp.MustCompile(`^(provider|buyer)\.wallet\b`)
	keys := map[string]bool{}
	for key, leaf := range all {
		keys[wallet.ReplaceAllString(key, "wallet")] = leaf
	}
	told := map[string]bool{}
	for _, row := range tableRows(t, "key") {
		var group string
		for i, m := range inCode.FindAllStringSubmatch(row[0], -1) {
			key := m[1]
			if i > 0 && !strings.Contains(key, ".") {
				key = group + key
			}
			group = key[:strings.LastIndex(key, ".")+1]
			key = wallet.ReplaceAllString(key, "wallet")
			leaf, ok := keys[key]
			if !ok {
				t.Errorf("docs/use/cli.md tells of %s, which is no key", key)
			}
			told[key] = true
			if !leaf {
				for _, m := range inCode.FindAllStringSubmatch(row[1], -1) {
					told[key+"."+m[1]] = true
				}
			}
		}
	}
	for key, leaf := range keys {
		if leaf && !told[key] {
			t.Errorf("docs/use/cli.md does not tell of %s", key)
		}
	}
}
