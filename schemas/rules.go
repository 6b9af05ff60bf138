package schemas

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// matchers are the patterns by their text. Those that most documents have are
// not for the engine of regular expressions, which takes longer than the rest.
var matchers = map[string]func(string) bool{
	patterns["digest"]: func(text string) bool {
		digits, ok := strings.CutPrefix(text, "sha256:")
		return ok && isHex(digits, 64)
	},
	patterns["pubkey"]: func(text string) bool { return isHex(text, 64) },
	patterns["env"]:    regexp.MustCompile(patterns["env"]).MatchString,
}

func isHex(text string, length int) bool {
	return len(text) == length && strings.TrimLeft(text, "0123456789abcdef") == ""
}

// stringKeeps reports whether a string, which is written here as in canonical
// text but without its quotes, keeps the rules that a schema has for strings.
// numberKeeps is the same of a number. The validator knows all of JSON Schema,
// takes many times as long, and has the words for what is broken.
func stringKeeps(s *jsonschema.Schema, written []byte) bool {
	if s.Pattern == "" && s.Enum == nil && s.MinLength == nil && s.MaxLength == nil {
		return true
	}
	text := string(written)
	if strings.Contains(text, `\`) && json.Unmarshal([]byte(`"`+text+`"`), &text) != nil {
		return false
	}
	if s.Enum != nil && !slices.Contains(s.Enum, any(text)) {
		return false
	}
	if s.Pattern != "" {
		if matches := matchers[s.Pattern]; matches == nil || !matches(text) {
			return false
		}
	}
	length := utf8.RuneCountInString(text)
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
