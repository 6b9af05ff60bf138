package message

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// shape describes the form of a JSON value. Messages are checked against it and the
// published schemas are generated from it, so the two cannot differ.
type shape struct {
	kind string // a JSON Schema type, "" for any value
	note string

	fields []field // of an object, checked in this order
	open   bool    // an object may have members beside fields
	oneOf  []string

	items              *shape // of an array
	minItems, maxItems int

	minLen, maxLen int // of a string, in characters
	enum           []string
	pattern        *regexp.Regexp
	format         string
	more           func(string) string // checks what no pattern can express; "" means valid

	min, max float64 // of a number
}

type field struct {
	name     string
	shape    shape
	optional bool
}

func need(name string, s shape) field { return field{name: name, shape: s} }
func may(name string, s shape) field  { return field{name: name, shape: s, optional: true} }

func text(minLen, maxLen int) shape { return shape{kind: "string", minLen: minLen, maxLen: maxLen} }

func oneWord[T ~string](words ...T) shape {
	s := shape{kind: "string"}
	for _, w := range words {
		s.enum = append(s.enum, string(w))
	}
	return s
}

func list(maxItems int, of shape) shape { return shape{kind: "array", items: &of, maxItems: maxItems} }

func integer(lowest, highest float64) shape {
	return shape{kind: "integer", min: lowest, max: highest}
}

func number(lowest, highest float64) shape { return shape{kind: "number", min: lowest, max: highest} }

func object(fields ...field) shape { return shape{kind: "object", fields: fields} }

// openObject allows members that have no meaning here.
func openObject(fields ...field) shape {
	s := object(fields...)
	s.open = true
	return s
}

func (s shape) noted(text string) shape {
	s.note = text
	return s
}

// check returns the first violation in the order of the fields, or nil. It stops
// there, so that a hostile message costs little.
func (s shape) check(value any, path string) *Error {
	if got := kindOf(value); s.kind != "" && s.kind != got && (s.kind != "number" || got != "integer") {
		return invalid(path, "is %s, must be %s", got, s.kind)
	}

	switch v := value.(type) {
	case string:
		return s.checkText(v, path)
	case float64:
		if s.kind != "" && (v < s.min || v > s.max) {
			return invalid(path, "must be %v to %v", s.min, s.max)
		}
	case []any:
		return s.checkList(v, path)
	case map[string]any:
		return s.checkObject(v, path)
	}

	return nil
}

func (s shape) checkText(v, path string) *Error {
	n := utf8.RuneCountInString(v)
	switch {
	case s.enum != nil && !slices.Contains(s.enum, v):
		return invalid(path, "must be one of %v", s.enum)
	case n < s.minLen:
		return invalid(path, "is empty")
	case s.maxLen > 0 && n > s.maxLen:
		return invalid(path, "has more than %d characters", s.maxLen)
	case s.pattern != nil && !s.pattern.MatchString(v):
		return invalid(path, "is malformed")
	}

	if s.more != nil {
		if reason := s.more(v); reason != "" {
			return invalid(path, "%s", reason)
		}
	}
	return nil
}

func (s shape) checkList(v []any, path string) *Error {
	if s.items == nil {
		return nil
	}
	if len(v) < s.minItems || len(v) > s.maxItems {
		return invalid(path, "must have %d to %d items", s.minItems, s.maxItems)
	}

	for i, item := range v {
		if err := s.items.check(item, path+"."+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s shape) checkObject(v map[string]any, path string) *Error {
	matched := 0
	for _, f := range s.fields {
		value, present := v[f.name]
		if !present {
			if !f.optional {
				return invalid(join(path, f.name), "is missing")
			}
			continue
		}
		matched++
		if err := f.shape.check(value, join(path, f.name)); err != nil {
			return err
		}
	}

	if s.kind != "" && !s.open && matched != len(v) {
		return invalid(path, "has members that this version does not know")
	}
	if s.oneOf == nil {
		return nil
	}

	n := 0
	for _, name := range s.oneOf {
		if _, present := v[name]; present {
			n++
		}
	}

	if n != 1 {
		return invalid(path, "must have exactly one of %v", s.oneOf)
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}

	return fmt.Sprintf("%T", value)
}
