package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// inputSchema is as much of a tool's input schema as the SDK checks: the
// keywords below. The node, which checks all of JSON Schema 2020-12, does so
// before it calls, so that what is left out here costs an agent no library and
// a user no answer: whatever is refused here, the node refuses too. The SDKs of
// the other languages do the same.
type inputSchema struct {
	rules []rule // all must hold
	// exact: every keyword of the schema is among them, so that what is
	// accepted here is accepted by the node.
	exact bool
}

// rule says where and how a value breaks it; "" if it does not. It quotes
// nothing of the value but names.
type rule func(value any, path string) string

// keyword makes the rule of a keyword from its operand and the schema around.
type keyword func(operand any, schema map[string]any) (inputSchema, error)

func keywords() map[string]keyword {
	return map[string]keyword{
		"type":                 typeRule,
		"enum":                 enumRule,
		"const":                constRule,
		"minimum":              limitKeyword("minimum", number, func(order int) bool { return order >= 0 }),
		"maximum":              limitKeyword("maximum", number, func(order int) bool { return order <= 0 }),
		"exclusiveMinimum":     limitKeyword("exclusiveMinimum", number, func(order int) bool { return order > 0 }),
		"exclusiveMaximum":     limitKeyword("exclusiveMaximum", number, func(order int) bool { return order < 0 }),
		"minLength":            limitKeyword("minLength", characters, func(order int) bool { return order >= 0 }),
		"maxLength":            limitKeyword("maxLength", characters, func(order int) bool { return order <= 0 }),
		"minItems":             limitKeyword("minItems", items, func(order int) bool { return order >= 0 }),
		"maxItems":             limitKeyword("maxItems", items, func(order int) bool { return order <= 0 }),
		"minProperties":        limitKeyword("minProperties", members, func(order int) bool { return order >= 0 }),
		"maxProperties":        limitKeyword("maxProperties", members, func(order int) bool { return order <= 0 }),
		"pattern":              patternRule,
		"required":             requiredRule,
		"properties":           propertiesRule,
		"additionalProperties": additionalRule,
		"items":                itemsRule,
		"allOf":                allRule,
		"anyOf":                anyRule,
		"oneOf":                oneRule,
	}
}

// isAnnotation: some keywords say nothing about which values are good.
func isAnnotation(name string) bool {
	switch name {
	case "$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// compileInput reads a tool's input schema. It refuses one that is no schema by
// the keywords that it knows; the node refuses others when they are registered.
func compileInput(doc json.RawMessage) (inputSchema, error) {
	value, err := wire.ParseValue(doc, wire.MaxSchemaDepth)
	if err != nil {
		return inputSchema{}, err
	}
	if _, isObject := value.(map[string]any); !isObject {
		return inputSchema{}, errors.New("not an object")
	}
	return compile(value)
}

// check says what is wrong with an input, "" if nothing is.
func (s inputSchema) check(input json.RawMessage) string {
	value, err := wire.ParseValue(input, wire.MaxValueDepth)
	if err != nil {
		return err.Error()
	}
	return s.wrong(value, "")
}

func (s inputSchema) wrong(value any, path string) string {
	for _, r := range s.rules {
		if wrong := r(value, path); wrong != "" {
			return wrong
		}
	}
	return ""
}

func compile(node any) (inputSchema, error) {
	switch n := node.(type) {
	case bool:
		if n {
			return inputSchema{exact: true}, nil
		}
		return predicate(func(any) bool { return false }, "not allowed"), nil
	case map[string]any:
		return compileObject(n)
	}
	return inputSchema{}, errors.New("a schema is an object, true or false")
}

func compileObject(schema map[string]any) (inputSchema, error) {
	all := inputSchema{exact: true}
	known := keywords()
	for _, name := range sortedNames(schema) { // the same words for the same value
		make, ok := known[name]
		if !ok {
			all.exact = all.exact && isAnnotation(name)
			continue
		}
		one, err := make(schema[name], schema)
		if err != nil {
			return inputSchema{}, fmt.Errorf("%s: %w", name, err)
		}
		all.rules = append(all.rules, one.rules...)
		all.exact = all.exact && one.exact
	}

	return all, nil
}

// predicate is a rule that looks at the value alone.
func predicate(good func(value any) bool, otherwise string) inputSchema {
	return inputSchema{exact: true, rules: []rule{func(value any, path string) string {
		if good(value) {
			return ""
		}
		return at(path, otherwise)
	}}}
}

func at(path, reason string) string {
	if path == "" {
		return reason
	}
	return path + ": " + reason
}

// below is the place of a member or an item.
func below(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
