package schemas

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// conform reports whether canonical text satisfies every rule of a schema, and
// returns the text with defaults added at the ends of their objects. It takes one
// pass and builds no tree. For text that does not conform, fill finds the reason.
func conform(s *jsonschema.Schema, text []byte) (complete []byte, ok bool) {
	k := scanner{text: text}
	if !k.value(s) || k.at < len(text) {
		return nil, false
	}
	if k.out == nil {
		return text, true
	}
	return append(k.out, text[k.copied:]...), true
}

// scanner is the state of one call of conform.
type scanner struct {
	text   []byte
	at     int      // next unread byte
	out    []byte   // text up to copied, with defaults
	copied int      // length of the text that is in out
	names  [][]byte // of members of the open objects, as the text spells them
}

// anySchema has no rule.
var anySchema = &jsonschema.Schema{}

func (k *scanner) value(s *jsonschema.Schema) bool {
	is := func(kind string) bool { return s.Type == "" || s.Type == kind }
	switch k.next() {
	case '{':
		return is("object") && k.object(s)
	case '[':
		return is("array") && k.array(s)
	case '"':
		text := k.quoted()
		return is("string") && stringConforms(s, text)
	case 't', 'f':
		return is("boolean") && (k.take("true") || k.take("false"))
	case 'n':
		return is("null") && k.take("null")
	}

	number := k.number()
	whole := !bytes.ContainsAny(number, ".e") // true of canonical text only
	return (is("number") || whole && is("integer")) && numberConforms(s, json.Number(number))
}

// object checks an object. The schema defines its names, or lets the document choose
// them.
func (k *scanner) object(s *jsonschema.Schema) bool {
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

		if s.PropertyNames != nil && !stringConforms(s.PropertyNames, name) || !k.value(orAny(member)) {
			return false
		}
	}

	names := k.names[outer:]
	for _, name := range s.PropertyOrder {
		if !has(names, name) && !k.addDefault(s, name, &names) {
			return false
		}
	}

	k.names = k.names[:outer]
	return (s.MinProperties == nil || len(names) >= *s.MinProperties) && (s.MaxProperties == nil || len(names) <= *s.MaxProperties)
}

// usualDefaults is a capacity that suffices for the defaults of a usual document.
const usualDefaults = 512

// addDefault writes the default of an absent member after the object's last member.
// It reports false if the member is required and has none.
func (k *scanner) addDefault(s *jsonschema.Schema, name string, names *[][]byte) bool {
	property := s.Properties[name]
	if property.Default == nil {
		return !slices.Contains(s.Required, name)
	}
	value, ok := conform(property, property.Default)
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
	*names = append(*names, nil) // counts as a member, but the text has no name for it
	return true
}

func has(names [][]byte, name string) bool {
	return slices.ContainsFunc(names, func(n []byte) bool { return string(n) == name })
}

func orAny(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return anySchema
	}
	return s
}

func (k *scanner) array(s *jsonschema.Schema) bool {
	element, count := orAny(s.Items), 0
	k.at++
	for !k.take("]") {
		k.take(",")
		if count++; s.MaxItems != nil && count > *s.MaxItems || !k.value(element) {
			return false
		}
	}
	return s.MinItems == nil || count >= *s.MinItems
}

// next returns the next byte without consuming it, and 0 at the end.
func (k *scanner) next() byte {
	if k.at == len(k.text) {
		return 0
	}
	return k.text[k.at]
}

func (k *scanner) take(word string) bool {
	if !bytes.HasPrefix(k.text[k.at:], []byte(word)) {
		return false
	}
	k.at += len(word)
	return true
}

// quoted reads a string and returns the text between its quotes.
func (k *scanner) quoted() []byte {
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

func (k *scanner) number() []byte {
	from := k.at
	for c := k.next(); c != 0 && c != ',' && c != ']' && c != '}'; c = k.next() {
		k.at++
	}
	return k.text[from:k.at]
}
