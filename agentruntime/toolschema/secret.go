package toolschema

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// marks are the places of a schema where secrets are; nil is a schema without
// any. It errs on the side of too many: a subschema that may apply does.
type marks struct {
	secret   bool
	same     []*marks // of the same value: $ref, allOf, if and the like
	names    map[string]*marks
	patterns []patternMarks
	rest     *marks // of properties without a name or pattern
	prefix   []*marks
	items    *marks
}

type patternMarks struct {
	form jsonschema.Regexp
	*marks
}

// HasSecrets reports whether the schema marks a value as a secret.
func (s *Schema) HasSecrets() bool { return s.marks != nil }

// Secrets gives replace each value of doc that the schema marks with writeOnly
// or x-secret, as it is written, and puts what comes back in its place. All
// other bytes stay as they are. A null is no secret.
func (s *Schema) Secrets(doc []byte, replace func(value []byte) ([]byte, error)) ([]byte, error) {
	return s.marks.replace(doc, replace)
}

// MemberSecrets takes every member of an object for a secret: where there is no
// schema to tell.
func MemberSecrets(doc []byte, replace func(value []byte) ([]byte, error)) ([]byte, error) {
	all := &marks{secret: true}
	return (&marks{rest: all}).replace(doc, replace)
}

func (m *marks) replace(doc []byte, replace func([]byte) ([]byte, error)) ([]byte, error) {
	if m == nil {
		return doc, nil
	}
	r := replacer{meter: meter{maxSteps}, doc: doc, dec: jsontext.NewDecoder(bytes.NewBuffer(doc)), replace: replace}
	if err := r.value(m.flat(nil)); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return nil, wire.ErrNotJSON
	}
	return append(r.out, doc[r.done:]...), nil
}

// flat adds all marks of the value that m is about.
func (m *marks) flat(to []*marks) []*marks {
	if m == nil {
		return to
	}
	to = append(to, m)
	for _, s := range m.same {
		to = s.flat(to)
	}
	return to
}

// replacer copies a document; out has doc up to done.
type replacer struct {
	meter
	doc, out []byte
	done     int
	dec      *jsontext.Decoder
	replace  func([]byte) ([]byte, error)
}

// value reads one value. It goes no deeper than the schema does.
func (r *replacer) value(at []*marks) error {
	if !r.pay(1 + len(at)) {
		return ErrSteps
	}

	kind := r.dec.PeekKind()
	for _, m := range at {
		if m.secret && kind != 'n' {
			return r.secret()
		}
	}

	switch {
	case len(at) > 0 && kind == '{':
		return r.object(at)
	case len(at) > 0 && kind == '[':
		return r.array(at)
	}

	return orNotJSON(r.dec.SkipValue())
}

func (r *replacer) secret() error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return wire.ErrNotJSON
	}
	end := int(r.dec.InputOffset())
	stands, err := r.replace(bytes.Clone(v))
	if err != nil {
		return err
	}
	r.out = append(append(r.out, r.doc[r.done:end-len(v)]...), stands...)
	r.done = end
	return nil
}

func (r *replacer) object(at []*marks) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return wire.ErrNotJSON
	}

	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadToken()
		if err != nil {
			return wire.ErrNotJSON
		}
		key := name.String()
		var below []*marks
		for _, m := range at {
			below = r.property(m, key, below)
		}
		if err := r.value(below); err != nil {
			return err
		}
	}

	_, err := r.dec.ReadToken()
	return orNotJSON(err)
}

func (r *replacer) array(at []*marks) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return wire.ErrNotJSON
	}

	for i := 0; r.dec.PeekKind() != ']'; i++ {
		var below []*marks
		for _, m := range at {
			if i < len(m.prefix) {
				below = m.prefix[i].flat(below)
			} else {
				below = m.items.flat(below)
			}
		}
		if err := r.value(below); err != nil {
			return err
		}
	}

	_, err := r.dec.ReadToken()
	return orNotJSON(err)
}

// property adds what m says of the property key.
func (r *replacer) property(m *marks, key string, to []*marks) []*marks {
	child, known := m.names[key]
	to = child.flat(to)
	for _, p := range m.patterns {
		if r.match(p.form, key) {
			known, to = true, p.flat(to)
		}
	}
	if !known {
		to = m.rest.flat(to)
	}
	return to
}

// orNotJSON says no more than that: the decoder's words quote the document.
func orNotJSON(err error) error {
	if err != nil {
		return wire.ErrNotJSON
	}
	return nil
}
