package schemas

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lightwork-market/lightwork/hashing"
)

// matchers are the patterns by their text. Those that most documents have are
// not for the engine of regular expressions, which takes longer than the rest.
var matchers = map[string]func([]byte) bool{
	patterns["digest"]: func(text []byte) bool { return new(hashing.Digest).UnmarshalText(text) == nil },
	patterns["pubkey"]: func(text []byte) bool { return isHex(text, 64) },
	patterns["env"]:    regexp.MustCompile(patterns["env"]).Match,
}

func isHex(text []byte, length int) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == length
}

// stringKeeps reports whether a string, which is written here as in canonical
// text but without its quotes, keeps the rules that a schema has for strings.
// numberKeeps is the same of a number. The validator knows all of JSON Schema,
// takes many times as long, and has the words for what is broken.
func stringKeeps(s *jsonschema.Schema, written []byte) bool {
	if s.Pattern == "" && s.Enum == nil && s.MinLength == nil && s.MaxLength == nil {
		return true
	}
	text := written
	if bytes.IndexByte(written, '\\') >= 0 {
		var decoded string
		if json.Unmarshal([]byte(`"`+string(written)+`"`), &decoded) != nil {
			return false
		}
		text = []byte(decoded)
	}

	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(allowed any) bool {
		word, ok := allowed.(string)
		return ok && word == string(text)
	}) {
		return false
	}
	if s.Pattern != "" {
		if matches := matchers[s.Pattern]; matches == nil || !matches(text) {
			return false
		}
	}

	length := utf8.RuneCount(text)
	return (s.MinLength == nil || length >= *s.MinLength) && (s.MaxLength == nil || length <= *s.MaxLength)
}

// numberKeeps compares doubles, which is what numbers of canonical text are.
func numberKeeps(s *jsonschema.Schema, number json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil {
		return true
	}
	n, err := number.Float64()
	return err == nil &&
		(s.Minimum == nil || n >= *s.Minimum) &&
		(s.Maximum == nil || n <= *s.Maximum) &&
		(s.ExclusiveMinimum == nil || n > *s.ExclusiveMinimum)
}
