package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rules is the filler that needs no model: it reads the schema's top-level
// properties and takes what the text says in so many words: "name: value" first,
// then quoted strings, paths, URLs, numbers, words of an enum. It guesses
// nothing: a required property that it finds no value for is an error.
func Rules() Filler {
	return Filler{Name: "rules", Fill: func(_ context.Context, c Capability, need string) ([]byte, error) {
		var s objectSchema
		if err := json.Unmarshal(c.Schema, &s); err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		return s.fill(need)
	}}
}

// objectSchema is the part of a JSON Schema that the rules understand.
type objectSchema struct {
	Properties map[string]struct {
		Type   any    `json:"type"`
		Enum   []any  `json:"enum"`
		Format string `json:"format"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func (s *objectSchema) fill(need string) ([]byte, error) {
	out := map[string]any{}
	names := slices.Sorted(maps.Keys(s.Properties))
	given, rest := splitLabels(need, names)
	words := parseWords(rest)

	// What is required chooses first.
	slices.SortStableFunc(names, func(a, b string) int {
		return btoi(slices.Contains(s.Required, b)) - btoi(slices.Contains(s.Required, a))
	})

	for _, name := range names {
		p := s.Properties[name]
		if text, ok := given[name]; ok {
			v, err := valueOf(text, fmt.Sprint(p.Type))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out[name] = v
			continue
		}

		v, ok := words.take(strings.ToLower(name), fmt.Sprint(p.Type), p.Format, p.Enum)
		if !ok && slices.Contains(s.Required, name) && fmt.Sprint(p.Type) == "string" && len(p.Enum) == 0 && len(s.Required) == 1 {
			v, ok = need, true // the one thing asked for is the text itself
		}
		if ok {
			out[name] = v
		} else if slices.Contains(s.Required, name) {
			return nil, fmt.Errorf("the text does not say %q", name)
		}
	}

	return json.Marshal(out)
}

// words are the literal values of a text, each good for one property.
type words struct {
	quoted, paths, urls []string
	numbers             []float64
	text                string
}

var (
	quotedForm = regexp.MustCompile("\"([^\"]*)\"|'([^']*)'|`([^`]*)`")
	wordForm   = regexp.MustCompile(`\S+`)
)

func parseWords(need string) *words {
	w := &words{text: " " + strings.ToLower(need) + " "}
	for _, m := range quotedForm.FindAllStringSubmatch(need, -1) {
		w.quoted = append(w.quoted, m[1]+m[2]+m[3])
	}

	for _, word := range wordForm.FindAllString(quotedForm.ReplaceAllString(need, " "), -1) {
		word = strings.Trim(word, ".,;:!?()[]{}")
		u, err := url.Parse(word)
		switch n, numErr := strconv.ParseFloat(word, 64); {
		case numErr == nil:
			w.numbers = append(w.numbers, n)
		case err == nil && u.Scheme != "" && u.Host != "":
			w.urls = append(w.urls, word)
		case strings.Contains(word, "/") || strings.Contains(strings.Trim(word, "."), "."):
			w.paths = append(w.paths, word)
		}
	}

	return w
}

// take finds a value for a property and uses it up.
func (w *words) take(name, typ, format string, enum []any) (any, bool) {
	for _, e := range enum {
		if s, ok := e.(string); ok && strings.Contains(w.text, " "+strings.ToLower(s)+" ") {
			return s, true
		}
	}

	if len(enum) > 0 {
		return nil, false
	}

	switch typ {
	case "integer", "number":
		if len(w.numbers) == 0 || typ == "integer" && w.numbers[0] != float64(int64(w.numbers[0])) {
			return nil, false
		}
		n := w.numbers[0]
		w.numbers = w.numbers[1:]
		return n, true
	case "string":
		lists := []*[]string{&w.quoted}
		switch {
		case format == "uri" || strings.Contains(name, "url"):
			lists = []*[]string{&w.urls, &w.quoted}
		case strings.Contains(name, "path") || strings.Contains(name, "file") || strings.Contains(name, "dir"):
			lists = []*[]string{&w.paths, &w.quoted}
		}

		for _, list := range lists {
			if len(*list) > 0 {
				v := (*list)[0]
				*list = (*list)[1:]
				return v, true
			}
		}
	}

	return nil, false
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
