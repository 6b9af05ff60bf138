package routing

import (
	"encoding/json"
	"slices"
)

// exampleDepth is how deep an example goes into a schema.
const exampleDepth = 4

// Example makes a request in the form of a schema, for people to copy: what is
// required or, where nothing is, all. Its values stand for a type and may break
// a rule of the schema. A schema that cannot be read gives {}.
func Example(schema json.RawMessage) json.RawMessage {
	doc, err := json.Marshal(exampleOf(schema, 0))
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return doc
}

type exampleSchema struct {
	Type       any                        `json:"type"`
	Const      any                        `json:"const"`
	Default    any                        `json:"default"`
	Enum       []any                      `json:"enum"`
	Examples   []any                      `json:"examples"`
	Minimum    *float64                   `json:"minimum"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
}

func exampleOf(schema json.RawMessage, depth int) any {
	var s exampleSchema
	if err := json.Unmarshal(schema, &s); err != nil || depth > exampleDepth {
		return map[string]any{}
	}

	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}

	typ, _ := s.Type.(string)
	switch typ {
	case "string":
		return "..."
	case "integer", "number":
		if s.Minimum != nil && *s.Minimum > 1 {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return true
	case "array":
		if len(s.Items) == 0 {
			return []any{}
		}
		return []any{exampleOf(s.Items, depth+1)}
	}

	out := map[string]any{}
	for name, property := range s.Properties {
		if len(s.Required) == 0 || slices.Contains(s.Required, name) {
			out[name] = exampleOf(property, depth+1)
		}
	}

	return out
}
