package schemas

import (
	"reflect"
	"testing"
)

// TestDefaultsDecodeAlike: the short way through a default's scalar leads where
// the decoder does, for every default there is and every kind of value.
func TestDefaultsDecodeAlike(t *testing.T) {
	docs := []string{`null`, `true`, `false`, `0`, `-1.5e3`, `""`, `"a\"\u00e9"`, `[]`, `{}`, `{"a":[1]}`}
	for _, s := range All() {
		for _, p := range s.input.Properties {
			for _, q := range p.Properties {
				docs = append(docs, string(q.Default))
			}
			docs = append(docs, string(p.Default))
		}
	}
	for _, doc := range docs {
		if doc == "" {
			continue // it has none
		}
		want, err := decodeTree([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeDefault([]byte(doc)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", doc, got, err, want)
		}
	}
}
