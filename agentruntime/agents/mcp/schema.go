package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Keywords of a schema whose values contain schemas.
var (
	schemaMembers = []string{
		"items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	schemaMaps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	schemaLists = []string{"items", "allOf", "anyOf", "oneOf", "prefixItems"}
)

// olderDrafts are drafts whose validation differs from 2020-12 only in the keywords
// that modernize rewrites. (Draft 7 ignores other keywords beside a $ref and
// 2020-12 does not, so such schemas check more, not less.)
var olderDrafts = []string{
	"http://json-schema.org/draft-06/schema", "http://json-schema.org/draft-07/schema",
	"https://json-schema.org/draft/2019-09/schema",
}

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// adaptSchema converts a server's schema to one that the node accepts and that
// accepts the same values. The error says why that is impossible; notes list the
// changes.
func adaptSchema(doc json.RawMessage) (adapted json.RawMessage, notes []string, err error) {
	if len(doc) > toolschema.MaxBytes {
		return nil, nil, fmt.Errorf("%d bytes, the limit is %d", len(doc), toolschema.MaxBytes)
	}
	root, err := decodeSchema(doc)
	if err != nil {
		return nil, nil, err
	}

	draft, isText := root["$schema"].(string)
	_, hasDraft := root["$schema"]
	draft = strings.TrimSuffix(strings.Replace(draft, "https://json-schema.org/draft-0", "http://json-schema.org/draft-0", 1), "#")
	switch {
	case hasDraft && !isText:
		return nil, nil, errors.New("$schema is not a string")
	case slices.Contains(olderDrafts, draft):
		rewritten, err := modernizeRoot(root)
		if err != nil {
			return nil, nil, err
		}
		if rewritten {
			notes = append(notes, "rewritten from "+draft)
		}
	case hasDraft && draft != draft2020:
		return nil, nil, errors.New("$schema names a draft that is not supported")
	}

	delete(root, "$schema")
	if _, ok := root["$id"].(string); ok {
		// Nothing can refer to it, because only references within the document are
		// allowed.
		delete(root, "$id")
		notes = append(notes, "$id removed")
	}

	if adapted, err = encodeSchema(root); err != nil {
		return nil, nil, err
	}
	if _, err := toolschema.Compile(adapted); err != nil {
		return nil, nil, err
	}

	return adapted, notes, nil
}

// decodeSchema keeps numbers as written.
func decodeSchema(doc json.RawMessage) (map[string]any, error) {
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

func encodeSchema(root map[string]any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// modernizeRoot reports whether it rewrote anything.
func modernizeRoot(root map[string]any) (bool, error) {
	before, err := encodeSchema(root)
	if err != nil {
		return false, err
	}
	if err := modernize(root); err != nil {
		return false, err
	}
	after, err := encodeSchema(root)
	return !bytes.Equal(before, after), err
}

// modernize rewrites the keywords of older drafts, in schema and every schema in
// it, to the equivalent keywords of draft 2020-12.
func modernize(schema map[string]any) error {
	if err := eachSchema(schema, modernize); err != nil {
		return err
	}
	tuple, isTuple := schema["items"].([]any)
	if isTuple {
		delete(schema, "items")
		if len(tuple) > 0 {
			schema["prefixItems"] = tuple
		}
		if rest, ok := schema["additionalItems"]; ok {
			schema["items"] = rest
		}
	}

	delete(schema, "additionalItems") // has no meaning without a tuple
	return splitDependencies(schema)
}

func splitDependencies(schema map[string]any) error {
	both, ok := schema["dependencies"]
	if !ok {
		return nil
	}
	deps, ok := both.(map[string]any)
	if !ok || schema["dependentRequired"] != nil || schema["dependentSchemas"] != nil {
		return errors.New("dependencies that cannot be rewritten")
	}

	required, schemas := map[string]any{}, map[string]any{}
	for name, dep := range deps {
		if _, isList := dep.([]any); isList {
			required[name] = dep
		} else {
			schemas[name] = dep
		}
	}

	delete(schema, "dependencies")
	schema["dependentRequired"], schema["dependentSchemas"] = required, schemas
	return nil
}

// eachSchema calls fn for the schemas directly inside schema. Members that are not
// objects, such as true, are skipped.
func eachSchema(schema map[string]any, fn func(map[string]any) error) error {
	var inner []any
	for _, name := range schemaMembers {
		inner = append(inner, schema[name])
	}
	for _, name := range schemaLists {
		list, _ := schema[name].([]any)
		inner = append(inner, list...)
	}

	for _, name := range schemaMaps {
		members, _ := schema[name].(map[string]any)
		for _, item := range members {
			inner = append(inner, item)
		}
	}

	for _, item := range inner {
		if sub, ok := item.(map[string]any); ok {
			if err := fn(sub); err != nil {
				return err
			}
		}
	}

	return nil
}
