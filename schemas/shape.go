package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
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

// shape checks known fields, types and counts of the value at path, and fills
// defaults in place. It stops at the first violation, in key order; the
// validator behind it collects one error for each, which a hostile document
// could make into millions.
func shape(s *jsonschema.Schema, value any, path string) error {
	if want, got := s.Type, typeOf(value); want != "" && want != got && (want != "number" || got != "integer") {
		return &FieldError{path, fmt.Sprintf("is %s, must be %s", article(got), article(want))}
	}
	switch value := value.(type) {
	case map[string]any:
		return shapeObject(s, value, path)
	case []any:
		if s.Items == nil {
			return nil
		}
		if s.MaxItems != nil && len(value) > *s.MaxItems {
			return &FieldError{path, fmt.Sprintf("has %d items, at most %d", len(value), *s.MaxItems)}
		}
		for i, element := range value {
			if err := shape(s.Items, element, item(path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func shapeObject(s *jsonschema.Schema, object map[string]any, path string) error {
	if s.MaxProperties != nil && len(object) > *s.MaxProperties {
		return &FieldError{path, fmt.Sprintf("has %d entries, at most %d", len(object), *s.MaxProperties)}
	}
	if s.Properties == nil {
		if s.AdditionalProperties == nil {
			return nil
		}
		if err := shapeNames(s.PropertyNames, object, path); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if err := shape(s.AdditionalProperties, object[name], child(path, name)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if s.Properties[name] == nil {
			return &FieldError{child(path, name), "is not a field of this schema"}
		}
	}
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
			value, object[name] = filled, filled
		}
		if err := shape(property, value, child(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// shapeNames checks the member names of a map. The validator would too, but
// reports them at the wrong place.
func shapeNames(s *jsonschema.Schema, object map[string]any, path string) error {
	if s == nil {
		return nil
	}
	allowed, err := regexp.Compile(s.Pattern)
	if err != nil {
		return fmt.Errorf("property names: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !allowed.MatchString(name) {
			return &FieldError{child(path, name), "has a name that is not allowed"}
		}
	}
	return nil
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
