// Package yamlfile decodes an operator's YAML files strictly: values that the
// library would silently convert (20.7 to 20, 020000 to 8192, "1e3" to 1000) are
// refused, and all mistakes of a file are reported at once.
package yamlfile

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/printer"
	"github.com/goccy/go-yaml/token"
)

// Problem is one mistake in a file.
type Problem struct {
	Line, Column int    // from 1
	Text         string // what is wrong
	Excerpt      string // the lines around the mistake, "" if there are none
	Empty        bool   // the file has no content
}

// Decode decodes src into the struct that into points to. If it returns problems,
// the struct may be filled only in part.
func Decode(src []byte, into any) []Problem {
	// Aliases could make a small file expand without end, and would separate a
	// value from its place of use.
	for _, tok := range lexer.Tokenize(string(src)) {
		if tok.Type == token.AliasType || tok.Type == token.AnchorType || tok.Type == token.MergeKeyType {
			return []Problem{problemAt(tok, "anchors and aliases are not supported")}
		}
	}

	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return []Problem{problemOf(err)}
	}
	if len(file.Docs) > 1 {
		return []Problem{problemAt(file.Docs[1].Start, "a second document begins here: a file holds one")}
	}

	c := &checker{}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		c.value(file.Docs[0].Body, reflect.TypeOf(into).Elem())
	}

	// The library finds the remaining mistakes: duplicate keys, and values of types
	// that decode themselves.
	err = yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(into)
	if errors.Is(err, io.EOF) {
		return []Problem{{Line: 1, Column: 1, Text: "the file is empty", Empty: true}}
	}
	if placed := yaml.Error(nil); err != nil && (errors.As(err, &placed) || len(c.problems) == 0) {
		if p := problemOf(err); !slices.ContainsFunc(c.problems, func(q Problem) bool { return q.Line == p.Line && q.Column == p.Column }) {
			c.problems = append(c.problems, p)
		}
	}

	slices.SortStableFunc(c.problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return c.problems
}

// At returns a problem with the value at a YAML path such as $.relays[0] or, if the
// file has no such value, with the nearest enclosing one.
func At(src []byte, path, text string) Problem {
	if node := find(src, path); node != nil {
		return problemAt(node.GetToken(), text)
	}
	for path != "$" && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		if node := find(src, path); node != nil {
			return problemAt(node.GetToken(), text)
		}
	}
	return Problem{Line: 1, Column: 1, Text: text}
}

// Has reports whether a file has a value at a path.
func Has(src []byte, path string) bool { return find(src, path) != nil }

func find(src []byte, path string) ast.Node {
	if path == "$" || path == "" {
		return nil
	}
	at, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil
	}
	node, err := at.FilterFile(file)
	if err != nil || node == nil || node.GetToken() == nil {
		return nil
	}
	return node
}

func problemAt(tok *token.Token, text string) Problem {
	if tok == nil || tok.Position == nil {
		return Problem{Line: 1, Column: 1, Text: text}
	}
	var p printer.Printer
	return Problem{Line: tok.Position.Line, Column: tok.Position.Column, Text: text, Excerpt: strings.TrimRight(p.PrintErrorToken(tok, false), "\n ")}
}

// problemOf converts an error of the library to the terms of the file.
func problemOf(err error) Problem {
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return Problem{Line: 1, Column: 1, Text: text}
	}

	text := bad.GetMessage()
	wrong, large := (*yaml.TypeError)(nil), (*yaml.OverflowError)(nil)
	switch {
	case errors.As(err, &wrong):
		text = expectation(wrong.DstType)
	case errors.As(err, &large):
		text = "the number is too large"
	case strings.Contains(text, "'\t'"): // it would look like a space
		text = "there is a tab here: indent lines with spaces"
	}

	return problemAt(bad.GetToken(), text)
}

// checker compares a document with the type that it is decoded into.
type checker struct{ problems []Problem }

func (c *checker) add(node ast.Node, format string, args ...any) {
	c.problems = append(c.problems, problemAt(node.GetToken(), fmt.Sprintf(format, args...)))
}

func (c *checker) value(node ast.Node, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if readsText(t) {
		if isNumber(node) && !isDecimal(node) {
			c.add(node, "%s", wantedNumber)
		}
		return
	}
	if readsItself(t) {
		c.free(node)
		return
	}

	if _, null := node.(*ast.NullNode); null {
		// An empty value means an empty list or mapping. An empty number or boolean
		// is a mistake.
		if isNumberKind(t) || isFloatKind(t) || t.Kind() == reflect.Bool {
			c.add(node, "%s", expectation(t))
		}
		return
	}

	switch t.Kind() {
	case reflect.Struct:
		c.structure(node, t)
	case reflect.Map:
		c.mapping(node, t)
	case reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			c.add(node, "%s", expectation(t))
			return
		}
		for _, item := range list.Values {
			c.value(item, t.Elem())
		}
	default:
		c.scalar(node, t)
	}
}

func (c *checker) structure(node ast.Node, t reflect.Type) {
	pairs, ok := pairsOf(node)
	if !ok {
		c.add(node, "%s", expectation(t))
		return
	}

	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		field, ok := fieldOf(t, key)
		if !ok {
			c.add(pair.Key, "unknown field %q", key)
			continue
		}
		c.value(pair.Value, field.Type)
	}
}

func (c *checker) mapping(node ast.Node, t reflect.Type) {
	pairs, ok := pairsOf(node)
	if !ok {
		c.add(node, "%s", expectation(t))
		return
	}
	for _, pair := range pairs {
		c.value(pair.Value, t.Elem())
	}
}

// free checks a part that is decoded elsewhere: its numbers must be whole and
// decimal too.
func (c *checker) free(node ast.Node) {
	if pairs, ok := pairsOf(node); ok {
		for _, pair := range pairs {
			c.free(pair.Value)
		}
		return
	}
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, item := range list.Values {
			c.free(item)
		}
		return
	}

	if isNumber(node) && !isDecimal(node) {
		c.add(node, "%s", wantedNumber)
	}
}

func pairsOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); f.IsExported() && name == key {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// readsText reports whether a type decodes a scalar itself.
func readsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// readsItself reports whether a type decodes itself, so that its form is unknown
// here.
func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.BytesUnmarshaler]()) ||
		t == reflect.TypeFor[yaml.MapSlice]() || t.Kind() == reflect.Interface
}
