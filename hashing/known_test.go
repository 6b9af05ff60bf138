package hashing

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"testing"
)

// TestUnmarshalKnown: members that have no field are ignored, but judged like the others.
func TestUnmarshalKnown(t *testing.T) {
	var v struct{ A, B int }
	if err := UnmarshalKnown([]byte(`{"more":{"x":[1.5]},"A":1,"a":7,"B":2}`), &v); err != nil || v.A != 1 || v.B != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	for doc, want := range map[string]Reason{
		`{"A":1,"A":2}`:                     ReasonDuplicateKey,
		`{"A":1,"more":{"x":1,"x":2}}`:      ReasonDuplicateKey,
		`{"A":1,"more":9007199254740993}`:   ReasonInteger,
		`{"A":1,"more":"` + "\xff" + `"}`:   ReasonUTF8,
		`{"A":1,"more":"\ud800"}`:           ReasonSurrogate,
		`{"A":1} {}`:                        ReasonTrailing,
		`{"A":1,"more":` + deep(MaxDepth+1): ReasonDepth,
	} {
		var refused *SyntaxError
		if err := UnmarshalKnown([]byte(doc), &v); !errors.As(err, &refused) || refused.Reason != want {
			t.Errorf("%.60s: %v, want %s", doc, err, want)
		}
	}
	if err := UnmarshalKnown([]byte(`{"A":"1"}`), &v); !errors.As(err, new(*MismatchError)) {
		t.Errorf("a string for a number: %v", err)
	}
}

// deep is an array in an array, to that depth.
func deep(levels int) string {
	doc := make([]byte, 0, 2*levels)
	for range levels {
		doc = append(doc, '[')
	}
	return string(doc)
}

// FuzzUnmarshalKnown: what is accepted reads as encoding/json reads it, which took these
// documents before.
func FuzzUnmarshalKnown(f *testing.F) {
	for _, doc := range []string{
		`{"a":1,"A":2}`, `{"names":{"_":"ab"},"relays":{}}`, `[["e","x"],["p",""]]`, `{"id":"1","result":null,"error":""}`,
		`{"a":1,"a":2}`, `{"a":1.0e3,"b":-0,"c":1e-7}`, `"\u0041\n"`, ` null `, `{"a":[]} x`, `1e400`, `{"":{"":[0.1]}}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var got, want any
		if UnmarshalKnown(doc, &got) != nil {
			return
		}
		if err := stdjson.Unmarshal(doc, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q reads as %v, and by encoding/json as %v, %v", doc, got, want, err)
		}

		var tags, stdTags [][]string
		if err := Unmarshal(doc, &tags); err == nil {
			if err := stdjson.Unmarshal(doc, &stdTags); err != nil || len(tags) != len(stdTags) || len(tags) > 0 && !reflect.DeepEqual(tags, stdTags) {
				t.Errorf("tags %q read as %v, and by encoding/json as %v, %v", doc, tags, stdTags, err)
			}
		}
	})
}
