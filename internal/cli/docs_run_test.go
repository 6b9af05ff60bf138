package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ranElsewhere are commands that a script cannot run: tests with a real mint do.
var ranElsewhere = []string{"wallet cashu-melt", "wallet cashu-export"}

// A ranCommand is a command line without what it is about: `receipts export` with
// --out.
type ranCommand struct {
	name  []string
	flags map[string]bool
}

var (
	commandWord = regexp.MustCompile(`^[a-z-]+$`)
	longFlag    = regexp.MustCompile(`^--[a-z-]+`)
)

// commandOf finds the command of a line of a document or a script.
func commandOf(line string) (c ranCommand, ok bool) {
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	at := slices.IndexFunc(words, func(w string) bool { return w == "lightwork" || w == "bin/lightwork" })
	if at < 0 {
		return c, false
	}
	c.flags = map[string]bool{}
	for i := at + 1; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "-c":
			i++
		case word == "|" || word == ">" || word == "&&":
			return c, true
		case longFlag.MatchString(word):
			name := longFlag.FindString(word)
			if name == "--max-msats" {
				name = "--max-sats" // the same in another unit
			}
			c.flags[name] = true
		case len(c.flags) == 0 && len(c.name) < 2 && commandWord.MatchString(word):
			c.name = append(c.name, word)
		}
	}
	return c, true
}

// covers reports whether c runs all of what other prints.
func (c ranCommand) covers(other ranCommand) bool {
	if len(other.name) == 0 || len(c.name) < 1 || c.name[0] != other.name[0] || len(other.name) == 2 && !slices.Equal(c.name, other.name) {
		return false
	}
	for flag := range other.flags {
		if !c.flags[flag] {
			return false
		}
	}
	return true
}

// TestDocsPrintWhatIsRun: a script runs each command that a document prints in a
// block, with the same flags.
func TestDocsPrintWhatIsRun(t *testing.T) {
	var ran []ranCommand
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.SplitSeq(string(text), "\n") {
			if c, ok := commandOf(line); ok {
				ran = append(ran, c)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	for _, e := range allExamples(t) {
		for line := range strings.SplitSeq(strings.ReplaceAll(e.text, "\\\n", ""), "\n") {
			text := strings.TrimPrefix(strings.TrimSpace(line), "bin/")
			printed, ok := commandOf(text)
			if !ok || !strings.HasPrefix(text, "lightwork ") || slices.Contains(ranElsewhere, strings.Join(printed.name, " ")) {
				continue
			}
			n++
			if !slices.ContainsFunc(ran, func(c ranCommand) bool { return c.covers(printed) }) {
				t.Errorf("%s prints %q, which no script runs with these flags", e, text)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d commands", n)
	}
}
