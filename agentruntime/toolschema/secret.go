package toolschema

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// annotations are the secrets that a schema marks; nil means none. A subschema that
// may apply counts as one that does, because a secret too many does no harm.
type annotations struct {
	secret   bool
	same     []*annotations // of the same value, from $ref, allOf, if and the like
	names    map[string]*annotations
	patterns []patternAnnotations
	rest     *annotations // of properties that no name or pattern covers
	prefix   []*annotations
	items    *annotations
}

type patternAnnotations struct {
	pattern jsonschema.Regexp
	*annotations
}

// HasSecrets reports whether the schema marks a value as a secret.
func (s *Schema) HasSecrets() bool { return s.annotations != nil }

// Secrets calls replace with the bytes of each value of doc that the schema marks
// with writeOnly or x-secret, and puts the result in its place. All other bytes stay
// as they are. A null is no secret.
func (s *Schema) Secrets(doc []byte, replace func(value []byte) ([]byte, error)) ([]byte, error) {
	return s.annotations.replace(doc, replace)
}

// MemberSecrets is Secrets for an object without a schema: every member counts as a
// secret.
func MemberSecrets(doc []byte, replace func(value []byte) ([]byte, error)) ([]byte, error) {
	all := &annotations{secret: true}
	return (&annotations{rest: all}).replace(doc, replace)
}

func (m *annotations) replace(doc []byte, replace func([]byte) ([]byte, error)) ([]byte, error) {
	if m == nil {
		return doc, nil
	}
	r := replacer{budget: budget{maxSteps}, doc: doc, dec: jsontext.NewDecoder(bytes.NewBuffer(doc)), replace: replace}
	if err := r.value(m.flat(nil)); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return nil, wire.ErrNotJSON
	}
	return append(r.out, doc[r.done:]...), nil
}

// flat appends to to all annotations that apply to the same value as m.
func (m *annotations) flat(to []*annotations) []*annotations {
	if m == nil {
		return to
	}
	to = append(to, m)
	for _, s := range m.same {
		to = s.flat(to)
	}
	return to
}

// replacer copies a document. out holds the copy of doc up to done.
type replacer struct {
	budget
	doc, out []byte
	done     int
	dec      *jsontext.Decoder
	replace  func([]byte) ([]byte, error)
}

// value reads one value. It goes no deeper than the schema does.
func (r *replacer) value(at []*annotations) error {
	if !r.spend(1 + len(at)) {
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
	replacement, err := r.replace(bytes.Clone(v))
	if err != nil {
		return err
	}
	r.out = append(append(r.out, r.doc[r.done:end-len(v)]...), replacement...)
	r.done = end
	return nil
}

func (r *replacer) object(at []*annotations) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return wire.ErrNotJSON
	}

	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadToken()
		if err != nil {
			return wire.ErrNotJSON
		}
		key := name.String()
		var below []*annotations
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

func (r *replacer) array(at []*annotations) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return wire.ErrNotJSON
	}

	for i := 0; r.dec.PeekKind() != ']'; i++ {
		var below []*annotations
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

// property appends the annotations that m has for the property key.
func (r *replacer) property(m *annotations, key string, to []*annotations) []*annotations {
	child, found := m.names[key]
	to = child.flat(to)
	for _, p := range m.patterns {
		if r.match(p.pattern, key) {
			found, to = true, p.flat(to)
		}
	}
	if !found {
		to = m.rest.flat(to)
	}
	return to
}

// orNotJSON hides the decoder's error, which quotes the document and its secrets.
func orNotJSON(err error) error {
	if err != nil {
		return wire.ErrNotJSON
	}
	return nil
}
