package schemas

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// keep reports whether canonical text keeps every rule of a schema, and returns
// it with defaults filled, which stand last in their objects. It is one pass
// without a tree. Of text that is not kept it does not say what is wrong: fill
// does.
func keep(s *jsonschema.Schema, text []byte) (filled []byte, ok bool) {
	k := keeper{text: text}
	if !k.value(s) || k.at < len(text) {
		return nil, false
	}
	if k.out == nil {
		return text, true
	}
	return append(k.out, text[k.copied:]...), true
}

// keeper is where keep is.
type keeper struct {
	text   []byte
	at     int      // what is before it was read
	out    []byte   // text up to copied, with defaults
	copied int      // in text
	names  [][]byte // of members of the open objects, as they are written
}

// anything is the schema without a rule.
var anything = &jsonschema.Schema{}

func (k *keeper) value(s *jsonschema.Schema) bool {
	is := func(kind string) bool { return s.Type == "" || s.Type == kind }
	switch k.next() {
	case '{':
		return is("object") && k.object(s)
	case '[':
		return is("array") && k.array(s)
	case '"':
		text := k.quoted()
		return is("string") && stringKeeps(s, text)
	case 't', 'f':
		return is("boolean") && (k.take("true") || k.take("false"))
	case 'n':
		return is("null") && k.take("null")
	}

	number := k.number()
	whole := !bytes.ContainsAny(number, ".e") // in canonical form
	return (is("number") || whole && is("integer")) && numberKeeps(s, json.Number(number))
}

// object is value of an object: its names are the schema's, or its own.
func (k *keeper) object(s *jsonschema.Schema) bool {
	outer := len(k.names)
	k.at++

	for !k.take("}") {
		k.take(",")
		name := k.quoted()
		k.take(":")
		k.names = append(k.names, name)
		member := s.AdditionalProperties
		if s.Properties != nil {
			if member = s.Properties[string(name)]; member == nil {
				return false
			}
		}

		if s.PropertyNames != nil && !stringKeeps(s.PropertyNames, name) || !k.value(orAnything(member)) {
			return false
		}
	}

	names := k.names[outer:]
	for _, name := range s.PropertyOrder {
		if !has(names, name) && !k.absent(s, name, &names) {
			return false
		}
	}

	k.names = k.names[:outer]
	return (s.MinProperties == nil || len(names) >= *s.MinProperties) && (s.MaxProperties == nil || len(names) <= *s.MaxProperties)
}

// usualDefaults is room for those of a usual document.
const usualDefaults = 512

// absent fills a member's default behind the object's last member, or reports
// that there is none and there has to be.
func (k *keeper) absent(s *jsonschema.Schema, name string, names *[][]byte) bool {
	property := s.Properties[name]
	if property.Default == nil {
		return !slices.Contains(s.Required, name)
	}
	value, ok := keep(property, property.Default)
	if !ok {
		return false
	}
	closing := k.at - 1
	if k.out == nil {
		k.out = make([]byte, 0, len(k.text)+usualDefaults)
	}
	k.out = append(k.out, k.text[k.copied:closing]...)
	k.copied = closing
	if len(*names) > 0 {
		k.out = append(k.out, ',')
	}
	k.out = append(append(append(k.out, '"'), name...), `":`...)
	k.out = append(k.out, value...)
	*names = append(*names, nil) // it has no name in the text
	return true
}

func has(names [][]byte, name string) bool {
	return slices.ContainsFunc(names, func(n []byte) bool { return string(n) == name })
}

func orAnything(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return anything
	}
	return s
}

func (k *keeper) array(s *jsonschema.Schema) bool {
	element, count := orAnything(s.Items), 0
	k.at++
	for !k.take("]") {
		k.take(",")
		if count++; s.MaxItems != nil && count > *s.MaxItems || !k.value(element) {
			return false
		}
	}
	return s.MinItems == nil || count >= *s.MinItems
}

// next is what comes next; 0 at the end.
func (k *keeper) next() byte {
	if k.at == len(k.text) {
		return 0
	}
	return k.text[k.at]
}

func (k *keeper) take(word string) bool {
	if !bytes.HasPrefix(k.text[k.at:], []byte(word)) {
		return false
	}
	k.at += len(word)
	return true
}

// quoted reads a string, and returns what is between its quotes.
func (k *keeper) quoted() []byte {
	k.at++
	from := k.at
	for k.text[k.at] != '"' {
		if k.text[k.at] == '\\' {
			k.at++
		}
		k.at++
	}
	k.at++
	return k.text[from : k.at-1]
}

func (k *keeper) number() []byte {
	from := k.at
	for c := k.next(); c != 0 && c != ',' && c != ']' && c != '}'; c = k.next() {
		k.at++
	}
	return k.text[from:k.at]
}
