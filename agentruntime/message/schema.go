package message

import (
	"encoding/json"
	"fmt"
)

// Schema is the JSON Schema (draft 2020-12) of one type of message, as it is
// published under schema/. What no schema can say, such as that a citation
// leads to a source, is in docs/messages.md.
func Schema(t Type) ([]byte, error) {
	payload := payloadShape(t, FormatJSON)
	doc := envelopeShape([]Type{t}, payload).schema()
	if mayBeText(t) {
		doc["properties"].(map[string]any)["payload"] = map[string]any{
			"oneOf": []any{payload.schema(), payloadShape(t, FormatText).schema()},
		}
	}
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["$id"] = Namespace + ":" + string(t)
	doc["title"] = t.Tag()
	doc["version"], doc["tag"] = Version, ControlPack
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write schema of %s: %w", t, err)
	}
	return append(out, '\n'), nil
}
