package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Read the configuration and point at what is wrong."`
}

type configCheckCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run reads the file as every other command does, and then what it names.
func (c configCheckCmd) Run(s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if err == nil {
		err = conf.ready(g.Config)
	}
	if c.JSON {
		out := map[string]any{"file": g.Config, "ok": err == nil}
		if err != nil {
			out["error"] = err.Error()
		}
		if coded := (*codedError)(nil); errors.As(err, &coded) && coded.hint != "" {
			out["hint"] = g.spell(coded.hint)
		}
		if jerr := printJSON(s.out, out); jerr != nil || err == nil {
			return jerr
		}
		return exitCode(exitUsage)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is fine\n  relays           %s\n  offers           %d\n  provider wallet  %s\n  buyer wallet     %s\n", g.Config,
		strings.Join(conf.Relays, " "), len(conf.Provider.Offers), firstText(conf.Provider.Wallet.Backend, "none"), firstText(conf.Buyer.Wallet.Backend, "none"))
	return nil
}

// ready says what a start would refuse.
func (c *config) ready(file string) error {
	found := problems{file: file}
	organismMissing := false
	for _, bad := range c.checkStart() {
		organismMissing = organismMissing || bad.path == "$.organism"
		found.list = append(found.list, problem{bad.problem(c.src), bad.hint})
	}
	start := found.errorOf()
	if start == nil {
		return allOf(c.checkOrganism())
	}
	// What the organism lacks of the configuration may follow from what is wrong there;
	// mistakes in its own file do not.
	errs := []error{start}
	if c.Organism != "" && !organismMissing {
		if _, err := organism.Load(c.organismFile()); err != nil {
			errs = append(errs, usage("docs/build-agents/thinking-agents.md has the shape", "%w", err))
		}
	}
	return allOf(errs)
}

// allOf is several mistakes as one error, each with its own next step; nil if there
// are none.
func allOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var said []string
	for _, err := range errs {
		text := err.Error()
		if coded := (*codedError)(nil); errors.As(err, &coded) && coded.hint != "" {
			text += "\n  hint: " + coded.hint
		}
		said = append(said, text)
	}
	return usage("", "%s", strings.Join(said, "\n"))
}

// problems are mistakes in one file, each with what to do where that is known.
type problems struct {
	file string
	list []problem
}

type problem struct {
	yamlfile.Problem
	hint string
}

// errorOf is all problems as one error; nil if there are none.
func (p problems) errorOf() error {
	switch len(p.list) {
	case 0:
		return nil
	case 1: // its hint is shown as that of every other error
		return usage(p.list[0].hint, "%s", p.say(p.list[0]))
	}
	slices.SortStableFunc(p.list, func(a, b problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	var said []string
	for _, one := range p.list {
		one.Excerpt = marked(one.Excerpt)
		text := p.say(one)
		if one.hint != "" {
			text += "\n  hint: " + one.hint
		}
		said = append(said, text)
	}
	return usage("", "%s", strings.Join(said, "\n"))
}

// say says FILE:LINE:COLUMN, what is wrong, and shows the place.
func (p problems) say(one problem) string {
	return strings.TrimSuffix(fmt.Sprintf("%s:%d:%d: %s\n%s", p.file, one.Line, one.Column, one.Text, one.Excerpt), "\n")
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

// configError is a value that cannot be used, by its path in the file.
type configError struct {
	path string // YAMLPath, for example $.relays[0]
	why  string
}

// problem gives the error its place in the text of the file.
func (e *configError) problem(src []byte) yamlfile.Problem {
	return yamlfile.At(src, e.path, strings.TrimPrefix(e.path, "$.")+": "+e.why)
}
