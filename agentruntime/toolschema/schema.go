// Package toolschema reads the schemas of tools for the node: it compiles them
// within bounds, checks inputs and outputs against them, and finds the secrets that
// they mark. An agent checks its inputs with a smaller checker, in package agent.
package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	// MaxBytes bounds a tool's schema document, beside wire.MaxSchemaDepth.
	MaxBytes = 64 << 10
	// maxNodes bounds the nodes of a schema after $ref expansion plus the
	// instructions of its regular expressions, and so the work of a validation.
	maxNodes = 10_000

	draft2020 = "https://json-schema.org/draft/2020-12/schema"
)

// ErrSchema is wrapped by every refusal of a schema.
var ErrSchema = errors.New("schema refused")

// Schema is a compiled tool schema: draft 2020-12, format asserted, no remote $ref
// (K-11). References must point into the document ("#/...") and must not recurse, so
// that a hostile schema cannot make a validation explode. A Schema is safe for
// concurrent use.
type Schema struct {
	compiled    *jsonschema.Schema
	annotations *annotations
	work        int
}

// ValueError names the first place where a value breaks its schema. Of the value it
// repeats only the names on the path.
type ValueError struct {
	Path   string // JSON pointer, "" for the whole value
	Reason string
	Err    error // ErrSteps or nil
}

func (e *ValueError) Unwrap() error { return e.Err }

func (e *ValueError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

func parse(doc json.RawMessage) (map[string]any, error) {
	if len(doc) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(doc), MaxBytes)
	}
	value, err := wire.ParseValue(doc, wire.MaxSchemaDepth)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	return root, nil
}

func compile(root map[string]any) (*Schema, error) {
	if draft, ok := root["$schema"]; ok && draft != draft2020 && draft != draft2020+"#" {
		return nil, errors.New("only draft 2020-12 is supported")
	}
	if err := dropName(root); err != nil {
		return nil, err
	}

	e := expansion{root: root, size: map[string]int{}, open: map[string]bool{}}
	if _, err := e.count(root); err != nil {
		return nil, err
	}
	const at = "schema:tool"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(at, root); err != nil {
		return nil, errors.New(compileReason(err))
	}
	compiled, err := c.Compile(at)
	if err != nil {
		return nil, errors.New(compileReason(err))
	}
	m, err := annotationsOf(root)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled: compiled, annotations: m}, nil
}

// dropName removes the $id of a schema if it is a URN and refuses any other. Job
// types have a URN (M-6), and a tool may declare such a schema as it is. A URN cannot
// be fetched, and without it no schema can shadow another.
func dropName(root map[string]any) error {
	id, present := root["$id"]
	name, _ := id.(string)
	if present && (!strings.HasPrefix(name, "urn:") || strings.Contains(name, "#")) {
		return errors.New("$id is not allowed, except a urn: at the root")
	}
	delete(root, "$id")
	return nil
}

// Validate checks doc; its errors are *ValueError.
func (s *Schema) Validate(doc json.RawMessage) error {
	value, err := wire.ParseValue(doc, wire.MaxValueDepth)
	if err != nil {
		return &ValueError{Reason: err.Error()}
	}

	c := checker{budget: budget{maxSteps}}
	wrong := c.check(s.compiled, value, nil, nil)
	switch {
	case c.exhausted():
		return stepsError()
	case wrong != nil:
		return wrong
	}

	return nil
}

// compileReason names the place where a schema breaks the meta-schema of the draft.
func compileReason(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &ve) {
		return firstCause(ve).Error()
	}
	return "does not compile"
}

func firstCause(ve *jsonschema.ValidationError) *ValueError {
	for len(ve.Causes) > 0 {
		ve = ve.Causes[0]
	}
	return &ValueError{Path: pointer(ve.InstanceLocation), Reason: reason(ve.ErrorKind)}
}

// reason describes an error without quoting the schema, which the library's own
// messages do.
func reason(k jsonschema.ErrorKind) string {
	if k, ok := k.(*kind.Type); ok {
		return "got " + k.Got + ", want " + strings.Join(k.Want, " or ")
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return strings.Join(path, "/") + " does not hold"
	}
	return "not allowed"
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return wire.SafeText(b.String())
}

// noLoader refuses to load any file or URL.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("remote $ref is not allowed") }

// expansion counts the nodes of a schema as if every $ref were replaced by
// its target.
type expansion struct {
	root map[string]any
	size map[string]int  // of the targets that are counted, by reference
	open map[string]bool // references on the current path, to detect recursion
}

func (e *expansion) count(node any) (int, error) {
	total := 1
	add := func(item any) error {
		n, err := e.count(item)
		if total += n; err == nil && total > maxNodes {
			err = fmt.Errorf("more than %d nodes after expanding $ref", maxNodes)
		}
		return err
	}

	switch v := node.(type) {
	case map[string]any:
		total += allPatternSteps(v)
		for name, item := range v {
			switch name {
			case "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary":
				return 0, fmt.Errorf("%s is not allowed", name)
			case "$id":
				if _, isString := item.(string); isString {
					return 0, errors.New("$id is not allowed")
				}
			case "$ref":
				if ref, isString := item.(string); isString {
					n, err := e.follow(ref)
					if err != nil {
						return 0, err
					}
					total += n
				}
			}

			if err := add(item); err != nil {
				return 0, err
			}
		}
	case []any:
		for _, item := range v {
			if err := add(item); err != nil {
				return 0, err
			}
		}
	}

	return total, nil
}

func (e *expansion) follow(ref string) (int, error) {
	if n, ok := e.size[ref]; ok {
		return n, nil
	}
	if e.open[ref] {
		return 0, errors.New("$ref must not recurse")
	}

	target, err := resolve(e.root, ref)
	if err != nil {
		return 0, err
	}
	e.open[ref] = true
	n, err := e.count(target)
	delete(e.open, ref)
	e.size[ref] = n
	return n, err
}

// resolve finds the target of a reference. It must find what the validator will find,
// so it decodes %XX as a URI fragment requires.
func resolve(root map[string]any, ref string) (any, error) {
	escaped, ok := strings.CutPrefix(ref, "#/")
	path, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		return nil, errors.New("$ref must be a pointer into the document")
	}
	target, ok := lookup(root, path)
	if !ok {
		return nil, errors.New("$ref points nowhere")
	}
	return target, nil
}

func lookup(node any, path string) (any, bool) {
	for token := range strings.SplitSeq(path, "/") {
		obj, ok := node.(map[string]any)
		if !ok {
			// No generator of tool schemas refers to array items.
			return nil, false
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if node, ok = obj[token]; !ok {
			return nil, false
		}
	}

	return node, true
}
