package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// decodeTree reads canonical JSON into maps, slices and json.Number.
func decodeTree(doc []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return tree, nil
}

// decodeDefault is decodeTree for a default, with a shortcut for scalars: a decoder
// for each of a dozen defaults would take a quarter of the time of a request. Every
// call returns a new value, because the caller fills defaults inside it.
func decodeDefault(doc json.RawMessage) (any, error) {
	switch doc[0] {
	case '{', '[':
		return decodeTree(doc)
	case '"':
		var text string
		err := json.Unmarshal(doc, &text)
		return text, err
	case 't', 'f':
		return doc[0] == 't', nil
	case 'n':
		return nil, nil
	}

	return json.Number(doc), nil
}

// filler checks shapes and fills defaults.
type filler struct{ changed bool }

// shape checks fields, types and counts of the value, and fills defaults in place.
// It runs before the validator and stops at the first violation in key order. The
// validator collects an error for each violation, and a hostile document could have
// millions.
func (f *filler) shape(s *jsonschema.Schema, value any, at *place) error {
	if want, got := s.Type, typeOf(value); want != "" && want != got && (want != "number" || got != "integer") {
		return &FieldError{at.path(), fmt.Sprintf("is %s, must be %s", article(got), article(want))}
	}
	return f.within(s, value, at)
}

// within checks the shapes of members and items.
func (f *filler) within(s *jsonschema.Schema, value any, at *place) error {
	switch value := value.(type) {
	case map[string]any:
		if s.Properties == nil {
			return f.shapeMap(s, value, at)
		}
		return f.shapeObject(s, value, at)
	case []any:
		if s.Items == nil {
			return nil
		}
		if s.MaxItems != nil && len(value) > *s.MaxItems {
			return &FieldError{at.path(), fmt.Sprintf("has %d items, at most %d", len(value), *s.MaxItems)}
		}

		here := place{in: at}
		for i, element := range value {
			here.index = i
			if err := f.shape(s.Items, element, &here); err != nil {
				return err
			}
		}
	}

	return nil
}

// shapeMap checks an object whose names the document chooses.
func (f *filler) shapeMap(s *jsonschema.Schema, object map[string]any, at *place) error {
	if err := countMembers(s, object, at); err != nil || s.AdditionalProperties == nil {
		return err
	}
	if err := shapeNames(s.PropertyNames, object, at); err != nil {
		return err
	}

	here := place{in: at, member: true}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here.name = name
		if err := f.shape(s.AdditionalProperties, object[name], &here); err != nil {
			return err
		}
	}

	return nil
}

func countMembers(s *jsonschema.Schema, object map[string]any, at *place) error {
	if s.MaxProperties != nil && len(object) > *s.MaxProperties {
		return &FieldError{at.path(), fmt.Sprintf("has %d entries, at most %d", len(object), *s.MaxProperties)}
	}
	return nil
}

// shapeObject checks an object whose names the schema defines.
func (f *filler) shapeObject(s *jsonschema.Schema, object map[string]any, at *place) error {
	if err := countMembers(s, object, at); err != nil {
		return err
	}
	if name, ok := unknownField(s, object); ok {
		return &FieldError{child(at.path(), name), "is not a field of this schema"}
	}

	here := place{in: at, member: true}
	for _, name := range s.PropertyOrder {
		property := s.Properties[name]
		value, present := object[name]
		if !present {
			if property.Default == nil {
				continue // the validator refuses it if it is required
			}
			decoded, err := decodeDefault(property.Default)
			if err != nil {
				return err
			}
			value, object[name], f.changed = decoded, decoded, true
		}

		here.name = name
		if err := f.shape(property, value, &here); err != nil {
			return err
		}
	}

	return nil
}

// unknownField returns the first name, in order, that the schema does not define.
func unknownField(s *jsonschema.Schema, object map[string]any) (first string, found bool) {
	for name := range object {
		if s.Properties[name] == nil && (!found || name < first) {
			first, found = name, true
		}
	}
	return first, found
}

// shapeNames checks the member names of a map. The validator checks them too, but
// its errors name the wrong place.
func shapeNames(s *jsonschema.Schema, object map[string]any, at *place) error {
	if s == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !matchers[s.Pattern]([]byte(name)) {
			return &FieldError{child(at.path(), name), "has a name that is not allowed"}
		}
	}
	return nil
}

// place is the position of a value: a member or an item of the value at in; nil is
// the document. It is turned into a path only when an error needs one.
type place struct {
	in     *place
	member bool
	name   string
	index  int
}

func (p *place) path() string {
	switch {
	case p == nil:
		return ""
	case p.member:
		return child(p.in.path(), p.name)
	}
	return item(p.in.path(), p.index)
}

// typeOf names the JSON Schema type of a value.
func typeOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		// In canonical form only other numbers have a point or an exponent.
		if strings.ContainsAny(string(value), ".e") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}

	return "object"
}

func article(jsonType string) string {
	switch jsonType {
	case "null":
		return jsonType
	case "array", "object", "integer":
		return "an " + jsonType
	}
	return "a " + jsonType
}
