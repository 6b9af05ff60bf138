package message

import (
	"encoding/json"
	"fmt"
)

// schemaOf is the JSON Schema (draft 2020-12) of one type of message, as it is
// published under schema/. What no schema can say, such as that a citation
// leads to a source, is in docs/build-agents/messages.md.
func schemaOf(t Type) ([]byte, error) {
	payload := payloadShape(t, FormatJSON)
	doc := envelopeShape([]Type{t}, payload).schema()
	if mayBeText(t) {
		doc["properties"].(map[string]any)["payload"] = map[string]any{
			"oneOf": []any{payload.schema(), payloadShape(t, FormatText).schema()},
		}
	}
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["$id"] = namespace + ":" + string(t)
	doc["title"] = t.Tag()
	doc["version"], doc["tag"] = Version, ControlPack
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema of %s: %w", t, err)
	}
	return append(out, '\n'), nil
}

// schema renders the shape as JSON Schema.
func (s shape) schema() map[string]any {
	doc := map[string]any{}
	put := func(key string, value any, set bool) {
		if set {
			doc[key] = value
		}
	}
	put("type", s.kind, s.kind != "")
	put("description", s.note, s.note != "")
	put("enum", s.enum, s.enum != nil)
	put("minLength", s.minLen, s.minLen > 0)
	put("maxLength", s.maxLen, s.maxLen > 0)
	put("format", s.format, s.format != "")
	if s.pattern != nil {
		doc["pattern"] = s.pattern.String()
	}
	switch s.kind {
	case "integer", "number":
		doc["minimum"], doc["maximum"] = s.min, s.max
	case "array":
		doc["items"], doc["maxItems"] = s.items.schema(), s.maxItems
		put("minItems", s.minItems, s.minItems > 0)
	case "object":
		s.objectSchema(doc)
	}
	return doc
}

func (s shape) objectSchema(doc map[string]any) {
	if !s.open {
		doc["additionalProperties"] = false
	}
	if s.oneOf != nil {
		var ways []any
		for _, name := range s.oneOf {
			ways = append(ways, map[string]any{"required": []string{name}})
		}
		doc["oneOf"] = ways
	}
	if len(s.fields) == 0 {
		return
	}
	properties, required := map[string]any{}, []string{}
	for _, f := range s.fields {
		properties[f.name] = f.shape.schema()
		if !f.optional {
			required = append(required, f.name)
		}
	}
	doc["properties"] = properties
	if len(required) > 0 {
		doc["required"] = required
	}
}
