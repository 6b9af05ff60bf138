package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
)

// Problem is a value of the configuration that cannot be used, and what to do where
// that is known.
type Problem struct {
	Path string // YAMLPath, for example $.relays[0]
	Why  string
	Hint string
}

// Mistake is a problem that says all by itself.
func Mistake(path, why string) *Problem { return &Problem{Path: path, Why: why} }

// ErrorOf is all problems as one error that shows where each is; nil if there are
// none.
func (c *Config) ErrorOf(found []*Problem) error {
	var list []located
	for _, bad := range found {
		at := yamlfile.At(c.src, bad.Path, strings.TrimPrefix(bad.Path, "$.")+": "+bad.Why)
		list = append(list, located{at, bad.Hint})
	}
	return problemsIn(c.file, list)
}

// located is a problem at its place in the text of the file.
type located struct {
	yamlfile.Problem
	hint string
}

// problemsIn is all problems of a file as one error; nil if there are none.
func problemsIn(file string, list []located) error {
	switch len(list) {
	case 0:
		return nil
	case 1: // its hint is shown as that of every other error
		return advice.Usage(list[0].hint, "%s", list[0].in(file))
	}

	slices.SortStableFunc(list, func(a, b located) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	var said []string
	for _, one := range list {
		one.Excerpt = marked(one.Excerpt)
		text := one.in(file)
		if one.hint != "" {
			text += "\n  hint: " + one.hint
		}
		said = append(said, text)
	}

	return advice.Usage("", "%s", strings.Join(said, "\n"))
}

// in says FILE:LINE:COLUMN, what is wrong, and shows the place.
func (l located) in(file string) string {
	return strings.TrimSuffix(fmt.Sprintf("%s:%d:%d: %s\n%s", file, l.Line, l.Column, l.Text, l.Excerpt), "\n")
}

// marked are the line of an excerpt that is meant, and the caret below it.
func marked(excerpt string) string {
	lines := strings.Split(excerpt, "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, ">") })
	if at < 0 {
		return ""
	}
	return strings.Join(lines[at:min(at+2, len(lines))], "\n")
}
