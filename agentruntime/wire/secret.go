package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Keywords that mark a value of a schema as a secret (K-38).
const (
	writeOnly = "writeOnly"
	xSecret   = "x-secret"
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
	form *regexp.Regexp
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
	r := replacer{doc: doc, dec: jsontext.NewDecoder(bytes.NewBuffer(doc)), replace: replace}
	if err := r.value(m.flat(nil)); err != nil {
		return nil, err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return nil, errNotJSON
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
	doc, out []byte
	done     int
	dec      *jsontext.Decoder
	replace  func([]byte) ([]byte, error)
}

// value reads one value. It goes no deeper than the schema does.
func (r *replacer) value(at []*marks) error {
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
		return errNotJSON
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
		return errNotJSON
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadToken()
		if err != nil {
			return errNotJSON
		}
		key := name.String()
		var below []*marks
		for _, m := range at {
			below = m.property(key, below)
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
		return errNotJSON
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
func (m *marks) property(key string, to []*marks) []*marks {
	child, known := m.names[key]
	to = child.flat(to)
	for _, p := range m.patterns {
		if p.form.MatchString(key) {
			known, to = true, p.flat(to)
		}
	}
	if !known {
		to = m.rest.flat(to)
	}
	return to
}

var errWholeSecret = errors.New("the whole value cannot be a secret; mark its members")

// marksOf reads the marks of a whole schema.
func marksOf(root map[string]any) (*marks, error) {
	m, err := (&marker{root: root, refs: map[string]*marks{}}).of(root)
	if err != nil {
		return nil, err
	}
	for _, top := range m.flat(nil) {
		if top.secret {
			return nil, errWholeSecret
		}
	}
	return m, nil
}

// marker reads the marks of a schema that was found to be one, and without
// recursion.
type marker struct {
	root map[string]any
	refs map[string]*marks
}

func (k *marker) of(node any) (*marks, error) {
	schema, ok := node.(map[string]any)
	if !ok {
		return nil, nil
	}
	m := &marks{secret: schema[writeOnly] == true || schema[xSecret] == true}
	if err := errors.Join(k.inPlace(m, schema), k.properties(m, schema), k.arrays(m, schema)); err != nil {
		return nil, err
	}
	if m.isEmpty() {
		return nil, nil
	}
	return m, nil
}

// isEmpty reports whether m leads to no secret.
func (m *marks) isEmpty() bool {
	below := append(slices.Clone(m.prefix), m.same...)
	for _, p := range m.patterns {
		below = append(below, p.marks)
	}
	below = slices.AppendSeq(append(below, m.rest, m.items), maps.Values(m.names))
	return !m.secret && !slices.ContainsFunc(below, func(b *marks) bool { return b != nil })
}

// inPlace reads what applies to the same value.
func (k *marker) inPlace(m *marks, schema map[string]any) error {
	var nodes []any
	for _, name := range []string{"if", "then", "else"} {
		nodes = append(nodes, schema[name])
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[name].([]any)
		nodes = append(nodes, list...)
	}
	dependent, _ := schema["dependentSchemas"].(map[string]any)
	for _, node := range dependent {
		nodes = append(nodes, node)
	}
	for _, node := range nodes {
		s, err := k.of(node)
		if err != nil {
			return err
		}
		if s != nil {
			m.same = append(m.same, s)
		}
	}
	ref, ok := schema["$ref"].(string)
	if !ok {
		return nil
	}
	s, err := k.follow(ref)
	if s != nil {
		m.same = append(m.same, s)
	}
	return err
}

func (k *marker) follow(ref string) (*marks, error) {
	if m, ok := k.refs[ref]; ok {
		return m, nil
	}
	target, ok := lookup(k.root, ref[min(2, len(ref)):])
	if !ok {
		return nil, fmt.Errorf("$ref %.80q points nowhere", ref)
	}
	m, err := k.of(target)
	k.refs[ref] = m
	return m, err
}

func (k *marker) properties(m *marks, schema map[string]any) (err error) {
	named, _ := schema["properties"].(map[string]any)
	m.names = map[string]*marks{}
	for name, node := range named {
		if m.names[name], err = k.of(node); err != nil {
			return err
		}
	}
	forms, _ := schema["patternProperties"].(map[string]any)
	for form, node := range forms {
		re, err := regexp.Compile(form)
		if err != nil {
			return errors.New("patternProperties: is no regular expression")
		}
		below, err := k.of(node)
		if err != nil {
			return err
		}
		m.patterns = append(m.patterns, patternMarks{re, below})
	}
	for _, name := range []string{"additionalProperties", "unevaluatedProperties"} {
		below, err := k.of(schema[name])
		if err != nil {
			return err
		}
		if below != nil {
			m.rest = &marks{same: append(below.flat(nil), m.rest.flat(nil)...)}
		}
	}
	return nil
}

func (k *marker) arrays(m *marks, schema map[string]any) error {
	prefix, _ := schema["prefixItems"].([]any)
	for _, node := range prefix {
		below, err := k.of(node)
		if err != nil {
			return err
		}
		m.prefix = append(m.prefix, below)
	}
	for _, name := range []string{"items", "contains", "unevaluatedItems"} {
		below, err := k.of(schema[name])
		if err != nil {
			return err
		}
		if below != nil {
			m.items = &marks{same: append(below.flat(nil), m.items.flat(nil)...)}
		}
	}
	return nil
}
