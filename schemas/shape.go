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

// decodeDefault is decodeTree for a default, which is a scalar in most cases: a
// decoder for each of the dozen of a request would cost a quarter of its time.
// What it returns is new at every call, since defaults inside it are filled too.
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

// filler checks shapes, and knows whether it filled any default.
type filler struct{ filled bool }

// shape checks known fields, types and counts of the value at path, and fills
// defaults in place. It stops at the first violation, in key order; the
// validator behind it collects one error for each, which a hostile document
// could make into millions.
func (f *filler) shape(s *jsonschema.Schema, value any, at *place) error {
	if want, got := s.Type, typeOf(value); want != "" && want != got && (want != "number" || got != "integer") {
		return &FieldError{at.path(), fmt.Sprintf("is %s, must be %s", article(got), article(want))}
	}
	return f.within(s, value, at)
}

// within is shape of what is in the value.
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

// shapeMap is shape of an object whose names are the document's own.
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

// shapeObject is shape of an object whose names are the schema's.
func (f *filler) shapeObject(s *jsonschema.Schema, object map[string]any, at *place) error {
	if err := countMembers(s, object, at); err != nil {
		return err
	}
	if name, ok := unknown(s, object); ok {
		return &FieldError{child(at.path(), name), "is not a field of this schema"}
	}

	here := place{in: at, member: true}
	for _, name := range s.PropertyOrder {
		property := s.Properties[name]
		value, present := object[name]
		if !present {
			if property.Default == nil {
				continue // the validator says whether it is required
			}
			filled, err := decodeDefault(property.Default)
			if err != nil {
				return err
			}
			value, object[name], f.filled = filled, filled, true
		}

		here.name = name
		if err := f.shape(property, value, &here); err != nil {
			return err
		}
	}

	return nil
}

// unknown is the least of the names that the schema does not have.
func unknown(s *jsonschema.Schema, object map[string]any) (least string, found bool) {
	for name := range object {
		if s.Properties[name] == nil && (!found || name < least) {
			least, found = name, true
		}
	}
	return least, found
}

// shapeNames checks the member names of a map. The validator would too, but
// reports them at the wrong place.
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

// place is where a value is in the document: in a member, or else in an element,
// of what is at in. It becomes a path only for an error; nil is the document.
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
		// In canonical form an integer has neither mark.
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
