package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
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
	if bad := c.checkStart(); bad != nil {
		return usage(bad.hint, "%s", bad.locate(file, c.src))
	}
	return c.checkOrganism()
}

// locateYAML says FILE:LINE:COLUMN, what is wrong, and shows the place.
func locateYAML(file string, err error) string {
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil {
		return fmt.Sprintf("%s:1:1: %v", file, err)
	}
	// The text is "[line:column] message" and then the place.
	text := strings.TrimRight(bad.FormatError(false, true), "\n ")
	if _, after, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(text, "[") {
		text = after
	}
	said, place, _ := strings.Cut(text, "\n")
	wrong, large := (*yaml.TypeError)(nil), (*yaml.OverflowError)(nil)
	switch {
	case errors.As(err, &wrong):
		text = wanted(wrong.DstType) + " is wanted here\n" + place
	case errors.As(err, &large):
		text = "the number is too large\n" + place
	case strings.Contains(said, "'\t'"): // it would be shown as a space
		text = "a tab is here: lines are indented with spaces\n" + place
	}
	pos := bad.GetToken().Position
	return fmt.Sprintf("%s:%d:%d: %s", file, pos.Line, pos.Column, text)
}

// wanted names what a value has to be, in the words of the file and not of Go.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time such as 10m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	}
	return "a text"
}

// configError is a value that cannot be used, by its path in the file.
type configError struct {
	path string // YAMLPath, for example $.relays[0]
	why  string
}

// locate says FILE:LINE:COLUMN, what is wrong, and shows the place. A value
// that is missing is located where it belongs.
func (e *configError) locate(file string, src []byte) string {
	what := fmt.Sprintf("%s: %s", strings.TrimPrefix(e.path, "$."), e.why)
	nowhere := fmt.Sprintf("%s:1:1: %s", file, what)
	doc, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nowhere
	}
	for path := e.path; path != "$" && path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		at, err := yaml.PathString(path)
		if err != nil {
			return nowhere
		}
		node, err := at.FilterFile(doc)
		if err != nil {
			continue
		}
		pos := node.GetToken().Position
		if shown, err := at.AnnotateSource(src, false); err == nil {
			what += "\n" + string(shown)
		}
		return fmt.Sprintf("%s:%d:%d: %s", file, pos.Line, pos.Column, what)
	}
	return nowhere
}
