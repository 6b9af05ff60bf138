package toolschema

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkValidate holds values of different sizes and shapes against a schema.
func BenchmarkValidate(b *testing.B) {
	schema, err := Compile(json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"list":{"type":"array","items":{"type":"integer"}}}}`))
	if err != nil {
		b.Fatal(err)
	}
	for name, doc := range map[string]string{
		"small":  `{"text":"Ada","list":[1,2,3]}`,
		"string": `{"text":"` + strings.Repeat("abcdefgh", 8<<10) + `"}`,
		"array":  `{"list":[` + strings.TrimSuffix(strings.Repeat("1234567,", 8<<10), ",") + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if err := schema.Validate(json.RawMessage(doc)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
