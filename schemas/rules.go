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

// matchers maps the text of a pattern to its matcher. Frequent patterns are matched
// in Go, because the regular expression engine would take longer than all other
// checks together.
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

// stringConforms reports whether a string satisfies the rules that a schema has for
// strings. literal is the string in canonical text without its quotes. The rules are
// the few that rule tags can set; the validator knows all of JSON Schema and takes
// many times as long.
func stringConforms(s *jsonschema.Schema, literal []byte) bool {
	if s.Pattern == "" && s.Enum == nil && s.MinLength == nil && s.MaxLength == nil {
		return true
	}
	text := literal
	if bytes.IndexByte(literal, '\\') >= 0 {
		var decoded string
		if json.Unmarshal([]byte(`"`+string(literal)+`"`), &decoded) != nil {
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

// numberConforms is stringConforms for numbers. It compares doubles, because every
// number of canonical text is one.
func numberConforms(s *jsonschema.Schema, number json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil {
		return true
	}
	n, err := number.Float64()
	return err == nil &&
		(s.Minimum == nil || n >= *s.Minimum) &&
		(s.Maximum == nil || n <= *s.Maximum) &&
		(s.ExclusiveMinimum == nil || n > *s.ExclusiveMinimum)
}
