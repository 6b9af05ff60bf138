package curator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// fact is a value with its name, if it has one, and the number of times it occurs.
type fact struct {
	name, value string
	times       int
}

func (f fact) String() string {
	s := f.value
	if f.name != "" {
		s = f.name + "=" + s
	}
	if f.times > 1 {
		s += fmt.Sprintf(" (%dx)", f.times)
	}
	return s
}

// facts is a list without duplicates, in the order of first occurrence.
type facts struct {
	list []fact
	at   map[[2]string]int
}

func (f *facts) add(name, value string) {
	key := [2]string{name, value}
	if i, ok := f.at[key]; ok {
		f.list[i].times++
		return
	}
	if len(f.list) == maxPending {
		return
	}

	if f.at == nil {
		f.at = map[[2]string]int{}
	}
	f.at[key] = len(f.list)
	f.list = append(f.list, fact{name, value, 1})
}

// top returns the n most frequent facts, of equals the first found.
func (f facts) top(n int) []fact {
	list := slices.Clone(f.list)
	slices.SortStableFunc(list, func(a, b fact) int { return cmp.Compare(b.times, a.times) })
	return list[:min(n, len(list))]
}

// outcomeName matches the name of a JSON member that says how something ended.
var outcomeName = regexp.MustCompile(`(?i)^(status|state|ok|success|passed|outcome|verdict|result|error|code|exit_?code|reason)$`)

// extractJSON adds the scalar members of a JSON document with their names. It
// returns false if doc is not JSON.
func extractJSON(doc []byte, found *[factKinds]facts) bool {
	v, err := wire.ParseValue(doc, wire.MaxValueDepth)
	if err != nil {
		return false
	}

	switch v.(type) {
	case map[string]any, []any:
		walkJSON("", v, found)
		return true
	}

	return false
}

// walkJSON visits members in the order of their names, so that equal documents have
// equal summaries. The decoder has bounded the depth.
func walkJSON(name string, v any, found *[factKinds]facts) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(v)) {
			walkJSON(member, v[member], found)
		}
	case []any:
		for _, element := range v {
			walkJSON(name, element, found)
		}
	case string:
		addNamed(name, v, found)
	case json.Number:
		addNamed(name, v.String(), found)
	case bool:
		addNamed(name, fmt.Sprint(v), found)
	}
}

func addNamed(name, value string, found *[factKinds]facts) {
	if !isName(name) {
		name = ""
	}

	kind, ok := kindOf(value)
	switch {
	case outcomeName.MatchString(name) && isToken(value):
		found[factOutcome].add(name, value)
	case ok:
		found[kind].add(name, value)
	default: // a text: classify its words
		extractText(value, found)
	}
}

// isToken reports whether s is one short word of visible characters.
func isToken(s string) bool {
	return s != "" && len(s) <= maxFactBytes/2 && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == ';' || r == ','
	}) < 0
}
