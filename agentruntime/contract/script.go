package contract

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed transcripts/*/*.txtar
var transcripts embed.FS

// step is one line of a script.
type step struct {
	line      int // in its script, from 1
	verb, arg string
}

func (s step) String() string {
	return fmt.Sprintf("script line %d: %s", s.line, clip(strings.TrimSpace(s.verb+" "+s.arg)))
}

// Checks lists all checks in the order of a report: the transcripts that any
// agent must pass, those for the tools of the reference agent, the watches.
func Checks() ([]Check, error) {
	var all []Check
	for _, group := range []string{"generic", "reference"} {
		dir := path.Join("transcripts", group)
		files, err := transcripts.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list transcripts: %w", err)
		}
		from := len(all)

		for _, f := range files {
			doc, err := transcripts.ReadFile(path.Join(dir, f.Name()))
			if err != nil {
				return nil, fmt.Errorf("read transcript: %w", err)
			}
			c, err := parse(strings.TrimSuffix(f.Name(), ".txtar"), doc)
			if err != nil {
				return nil, fmt.Errorf("transcript %s: %w", f.Name(), err)
			}
			all = append(all, c)
		}

		slices.SortFunc(all[from:], byName)
	}

	return append(all, watches()...), nil
}

func byName(a, b Check) int { return strings.Compare(a.Name, b.Name) }

func parse(name string, doc []byte) (Check, error) {
	ar := txtar.Parse(doc)
	c := Check{Name: name}
	if len(ar.Files) != 1 || ar.Files[0].Name != "script" {
		return c, fmt.Errorf("must hold one file, called script")
	}

	var about []string
	for line := range strings.Lines(string(ar.Comment)) {
		line = strings.TrimSpace(line)
		note, isNote := strings.CutPrefix(line, "#")
		tools, isNeeds := strings.CutPrefix(strings.TrimSpace(note), "needs:")
		switch {
		case isNeeds:
			c.Needs = append(c.Needs, strings.Fields(tools)...)
		case isNote:
			c.Lines = append(c.Lines, strings.Fields(note)...)
		case line != "":
			about = append(about, line)
		}
	}

	c.About = strings.Join(about, " ")
	n := 0
	for line := range strings.Lines(string(ar.Files[0].Data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, arg, ok := strings.Cut(line, ":")
		if !ok || verbs[verb] == nil {
			return c, fmt.Errorf("script line %d: no such verb", n)
		}
		c.steps = append(c.steps, step{n, verb, strings.TrimSpace(arg)})
	}

	if c.About == "" || len(c.Lines) == 0 || len(c.steps) == 0 {
		return c, fmt.Errorf("needs a description, specification lines and steps")
	}
	slices.Sort(c.Needs)
	return c, nil
}
