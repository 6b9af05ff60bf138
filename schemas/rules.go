package schemas

import (
	"encoding/json"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// regexps are the patterns, compiled, by their text.
var regexps = func() map[string]*regexp.Regexp {
	compiled := map[string]*regexp.Regexp{}
	for _, text := range patterns {
		compiled[text] = regexp.MustCompile(text)
	}
	return compiled
}()

// keeps reports whether a value of the right type keeps the rules that schemas
// of this package have for a value itself; shape looks at what is in it. The
// validator knows all of JSON Schema, takes many times as long, and has the words
// for what is broken, so it is asked where keeps says no.
func keeps(s *jsonschema.Schema, value any) bool {
	if s.Enum != nil && !slices.Contains(s.Enum, value) {
		return false
	}
	switch value := value.(type) {
	case string:
		return stringKeeps(s, value)
	case json.Number:
		return numberKeeps(s, value)
	case []any:
		return s.MinItems == nil || len(value) >= *s.MinItems
	case map[string]any:
		return (s.MinProperties == nil || len(value) >= *s.MinProperties) &&
			!slices.ContainsFunc(s.Required, func(name string) bool { _, present := value[name]; return !present })
	}
	return true
}

func stringKeeps(s *jsonschema.Schema, text string) bool {
	if s.Pattern != "" {
		if allowed := regexps[s.Pattern]; allowed == nil || !allowed.MatchString(text) {
			return false
		}
	}
	if s.MinLength == nil && s.MaxLength == nil {
		return true
	}
	length := utf8.RuneCountInString(text)
	return (s.MinLength == nil || length >= *s.MinLength) && (s.MaxLength == nil || length <= *s.MaxLength)
}

// numberKeeps compares doubles, which is what numbers of canonical text are.
func numberKeeps(s *jsonschema.Schema, number json.Number) bool {
	n, err := number.Float64()
	return err == nil &&
		(s.Minimum == nil || n >= *s.Minimum) &&
		(s.Maximum == nil || n <= *s.Maximum) &&
		(s.ExclusiveMinimum == nil || n > *s.ExclusiveMinimum)
}
