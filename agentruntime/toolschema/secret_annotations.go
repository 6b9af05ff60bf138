package toolschema

import (
	"errors"
	"maps"
	"slices"
)

// Keywords that mark a value of a schema as a secret (K-38).
const (
	writeOnly = "writeOnly"
	xSecret   = "x-secret"
)

var errWholeSecret = errors.New("the whole value cannot be a secret; mark its members")

// annotationsOf reads the annotations of a whole schema. It refuses a schema whose
// root is a secret.
func annotationsOf(root map[string]any) (*annotations, error) {
	m, err := (&annotator{root: root, refs: map[string]*annotations{}}).of(root)
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

// annotator reads the annotations of a schema that has compiled and so has no
// recursive reference.
type annotator struct {
	root map[string]any
	refs map[string]*annotations
}

func (k *annotator) of(node any) (*annotations, error) {
	schema, ok := node.(map[string]any)
	if !ok {
		return nil, nil
	}
	m := &annotations{secret: schema[writeOnly] == true || schema[xSecret] == true}
	if err := errors.Join(k.inPlace(m, schema), k.properties(m, schema), k.arrays(m, schema)); err != nil {
		return nil, err
	}
	if m.isEmpty() {
		return nil, nil
	}

	return m, nil
}

// isEmpty reports whether m leads to no secret.
func (m *annotations) isEmpty() bool {
	below := append(slices.Clone(m.prefix), m.same...)
	for _, p := range m.patterns {
		below = append(below, p.annotations)
	}
	below = slices.AppendSeq(append(below, m.rest, m.items), maps.Values(m.names))
	return !m.secret && !slices.ContainsFunc(below, func(b *annotations) bool { return b != nil })
}

// inPlace reads the subschemas that apply to the same value.
func (k *annotator) inPlace(m *annotations, schema map[string]any) error {
	var nodes []any
	for _, name := range []string{"if", "then", "else"} {
		nodes = append(nodes, schema[name])
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[name].([]any)
		nodes = append(nodes, list...)
	}

	for _, name := range []string{"dependentSchemas", "dependencies"} {
		dependent, _ := schema[name].(map[string]any)
		nodes = slices.AppendSeq(nodes, maps.Values(dependent))
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

func (k *annotator) follow(ref string) (*annotations, error) {
	if m, ok := k.refs[ref]; ok {
		return m, nil
	}
	target, err := resolve(k.root, ref)
	if err != nil {
		return nil, err
	}
	m, err := k.of(target)
	k.refs[ref] = m
	return m, err
}

func (k *annotator) properties(m *annotations, schema map[string]any) (err error) {
	named, _ := schema["properties"].(map[string]any)
	m.names = map[string]*annotations{}

	for name, node := range named {
		if m.names[name], err = k.of(node); err != nil {
			return err
		}
	}

	forms, _ := schema["patternProperties"].(map[string]any)
	for text, node := range forms {
		re, err := compilePattern(text)
		if err != nil {
			return errors.New("patternProperties: is no regular expression")
		}
		below, err := k.of(node)
		if err != nil {
			return err
		}
		m.patterns = append(m.patterns, patternAnnotations{re, below})
	}

	for _, name := range []string{"additionalProperties", "unevaluatedProperties"} {
		below, err := k.of(schema[name])
		if err != nil {
			return err
		}
		if below != nil {
			m.rest = &annotations{same: append(below.flat(nil), m.rest.flat(nil)...)}
		}
	}

	return nil
}

func (k *annotator) arrays(m *annotations, schema map[string]any) error {
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
			m.items = &annotations{same: append(below.flat(nil), m.items.flat(nil)...)}
		}
	}
	return nil
}
