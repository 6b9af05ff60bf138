package hashing

import (
	"errors"
	"iter"
	"slices"
)

// ErrNotObject is returned for a document that is some other value.
var ErrNotObject = errors.New("not a JSON object")

// An Object is one parsed JSON object: its members and its canonical form. It refers
// to the document it was read from. The zero value has no member.
type Object struct {
	doc, text []byte
	keys      []byte
	members   []member
	e         engine // owns text, keys and members, unless doc is canonical
	c         canon
}

// Parse reads a document that passes [Check] and is an object. It reuses the memory
// of the last document, so nothing taken from that one stays valid. The error is a
// *[SyntaxError] or [ErrNotObject]; the object then has no member.
func (o *Object) Parse(doc []byte) error {
	o.doc, o.text, o.keys, o.members = nil, nil, nil, nil
	if o.c.accepts(doc) {
		if doc[0] != '{' {
			return ErrNotObject
		}
		o.doc, o.text, o.keys, o.members = doc, doc, doc, o.c.members
		return nil
	}

	e := &o.e
	if e.out == nil {
		*e = newEngine(doc)
	}
	e.reset(doc)
	if err := e.document(); err != nil {
		return err
	}
	if e.out[0] != '{' {
		return ErrNotObject
	}

	o.doc, o.text, o.keys, o.members = doc, e.out, e.keys[:cap(e.keys)], e.outermost
	return nil
}

// IsCanonical reports whether the document is its own canonical form.
func (o *Object) IsCanonical() bool { return string(o.doc) == string(o.text) }

// Members yields the name and the value, as the document spells it, of each member
// in canonical order.
func (o *Object) Members() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, m := range o.members {
			if !yield(string(o.name(m)), o.doc[m.from:m.to]) {
				return
			}
		}
	}
}

func (o *Object) name(m member) []byte { return o.keys[m.keyStart:m.keyEnd] }

// Value returns the value of a member as the document spells it, or nil.
func (o *Object) Value(name string) []byte {
	if m, ok := o.find(name); ok {
		return o.doc[m.from:m.to]
	}
	return nil
}

// CanonicalValue returns the value of a member in canonical form, or nil.
func (o *Object) CanonicalValue(name string) []byte {
	if m, ok := o.find(name); ok {
		return o.text[m.value:m.end]
	}
	return nil
}

func (o *Object) find(name string) (member, bool) {
	for _, m := range o.members {
		if string(o.name(m)) == name {
			return m, true
		}
	}
	return member{}, false
}

// Without returns the canonical form of the object without the members of these
// names.
func (o *Object) Without(names ...string) []byte {
	if !slices.ContainsFunc(o.members, func(m member) bool { return isOneOf(o.name(m), names) }) {
		return o.text
	}

	text := append(make([]byte, 0, len(o.text)), '{')
	for _, m := range o.members {
		if isOneOf(o.name(m), names) {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, o.text[m.start:m.end]...)
	}
	return append(text, '}')
}

func isOneOf(name []byte, names []string) bool {
	for _, n := range names {
		if string(name) == n {
			return true
		}
	}
	return false
}
