package toolschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Takes reports as a *[ValueError] where a tool cannot accept documents of another
// schema, and nil if it finds no such place. Both schemas must have been compiled.
// It compares names and types only, because these reveal a tool that was made for
// another purpose; lengths and ranges are checked on each document.
func Takes(tool, document json.RawMessage) error {
	t, d, err := parsePair(tool, document)
	if err != nil {
		return err
	}
	return fitError((&fit{tool: t, other: d}).takes(t, d, "", maxFitDepth))
}

// Gives reports as [Takes] does where the results of a tool cannot be documents of
// another schema. The caller adds the fields at the paths in added, so the tool need
// not give them.
func Gives(tool, document json.RawMessage, added ...string) error {
	t, d, err := parsePair(tool, document)
	if err != nil {
		return err
	}
	return fitError((&fit{tool: t, other: d, added: added}).gives(t, d, "", maxFitDepth))
}

// maxFitDepth bounds the walk; whatever lies deeper is taken to fit.
const maxFitDepth = 32

type fit struct {
	tool, other any // the roots, to resolve references
	added       []string
}

func parsePair(tool, document json.RawMessage) (any, any, error) {
	t, err := parse(tool)
	if err != nil {
		return nil, nil, err
	}
	d, err := parse(document)
	return t, d, err
}

func fitError(wrong *ValueError) error {
	if wrong == nil {
		return nil
	}
	return wrong
}

func mismatch(path, format string, args ...any) *ValueError {
	return &ValueError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// takes checks that tool allows every document that other allows.
func (f *fit) takes(tool, other any, path string, depth int) *ValueError {
	t, d := dereference(f.tool, tool), dereference(f.other, other)
	if t == nil || d == nil || depth == 0 {
		if tool == false {
			return mismatch(path, "the tool takes no such field")
		}
		return nil
	}
	if wrong := someType(path, t, d, "takes"); wrong != nil {
		return wrong
	}

	for _, part := range items(t["allOf"]) {
		if wrong := f.takes(part, other, path, depth-1); wrong != nil {
			return wrong
		}
	}

	if wrong := f.takesOne(items(t["anyOf"]), other, path, depth); wrong != nil {
		return wrong
	}
	if wrong := f.takesOne(items(t["oneOf"]), other, path, depth); wrong != nil {
		return wrong
	}

	mine, theirs := members(t["properties"]), members(d["properties"])
	certain := texts(d["required"])
	for name, schema := range theirs {
		if at := dereference(f.other, schema); at["default"] != nil {
			certain = append(certain, name)
		}
	}

	for _, name := range texts(t["required"]) {
		if !slices.Contains(certain, name) {
			return mismatch(path, "the tool wants %q, which a request need not have", name)
		}
	}

	for _, name := range sortedNames(theirs) {
		schema, known := mine[name]
		switch {
		case known:
			if wrong := f.takes(schema, theirs[name], path+"/"+name, depth-1); wrong != nil {
				return wrong
			}
		case t["additionalProperties"] == false && t["patternProperties"] == nil:
			return mismatch(path, "the tool does not take %q, which a request may have", name)
		}
	}

	if each, ok := t["items"]; ok && d["items"] != nil {
		return f.takes(each, d["items"], path+"/0", depth-1)
	}
	return nil
}

func (f *fit) takesOne(branches []any, other any, path string, depth int) *ValueError {
	var wrong *ValueError
	for _, branch := range branches {
		if wrong = f.takes(branch, other, path, depth-1); wrong == nil {
			return nil
		}
	}
	return wrong
}

// gives checks that a document that tool allows can be one that other allows.
func (f *fit) gives(tool, other any, path string, depth int) *ValueError {
	t, d := dereference(f.tool, tool), dereference(f.other, other)
	if t == nil || d == nil || depth == 0 {
		return nil
	}
	if wrong := someType(path, t, d, "gives"); wrong != nil {
		return wrong
	}

	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		if t[word] != nil {
			return nil // no single subschema describes the whole result
		}
	}

	mine, theirs := members(t["properties"]), members(d["properties"])
	for _, name := range texts(d["required"]) {
		at := path + "/" + name
		if _, ok := mine[name]; ok || slices.Contains(f.added, at) {
			continue
		}
		if t["additionalProperties"] == false || len(mine) > 0 {
			return mismatch(path, "the tool does not give %q, which a result must have", name)
		}
	}

	for _, name := range texts(t["required"]) {
		if theirs[name] == nil && d["additionalProperties"] == false {
			return mismatch(path, "the tool gives %q, which a result may not have", name)
		}
	}

	for _, name := range sortedNames(mine) {
		if schema, known := theirs[name]; known {
			if wrong := f.gives(mine[name], schema, path+"/"+name, depth-1); wrong != nil {
				return wrong
			}
		}
	}

	if each, ok := t["items"]; ok && d["items"] != nil {
		return f.gives(each, d["items"], path+"/0", depth-1)
	}
	return nil
}

// someType requires a type that both schemas allow. A tool that takes numbers also
// takes integers; one that gives numbers may give integers, and one that gives
// integers gives numbers.
func someType(path string, tool, other map[string]any, does string) *ValueError {
	mine, theirs := typesOf(tool), typesOf(other)
	if len(mine) == 0 || len(theirs) == 0 {
		return nil
	}

	for _, a := range mine {
		for _, b := range theirs {
			if a == b || a == "number" && b == "integer" || a == "integer" && b == "number" && does == "gives" {
				return nil
			}
		}
	}
	return mismatch(path, "the tool %s %s, the job type has %s", does, strings.Join(mine, " or "), strings.Join(theirs, " or "))
}

func typesOf(schema map[string]any) []string {
	if one, ok := schema["type"].(string); ok {
		return []string{one}
	}
	return texts(schema["type"])
}

// dereference follows references within a document. It returns nil for a schema that
// is no object or whose reference does not resolve.
func dereference(root, schema any) map[string]any {
	for range maxFitDepth {
		node, ok := schema.(map[string]any)
		if !ok {
			return nil
		}
		ref, ok := node["$ref"].(string)
		if !ok {
			return node
		}
		target, err := resolve(members(root), ref)
		if err != nil {
			return nil
		}
		schema = target
	}

	return nil
}

func members(v any) map[string]any { m, _ := v.(map[string]any); return m }

func items(v any) []any { l, _ := v.([]any); return l }

func texts(v any) []string {
	var all []string
	for _, item := range items(v) {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
