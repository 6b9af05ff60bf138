package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

var (
	nameForm   = regexp.MustCompile(`\$[A-Z][A-Z0-9_]*`)
	numberForm = regexp.MustCompile(`\$N[A-Z_]?`)
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// vars are the names of a transcript and what they stand for. The values are
// put into JSON text as they are, so they are kept escaped.
type vars map[string]string

// initialVars returns the variables of every new session.
func initialVars(agent *Agent, token string) vars {
	return vars{
		"$AGENT": agent.ID, "$VERSION": agent.Version, "$TOKEN": token,
		"$LONG": strings.Repeat("x", 5000),
		"$DEEP": strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000),
		"$WIDE": "[0" + strings.Repeat(",0", 5000) + "]",
	}
}

// fill replaces the known names.
func (v vars) fill(text string) string {
	return nameForm.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := v[name]; ok {
			return value
		}
		return name
	})
}

// decode reads the one JSON value of text with exact numbers.
func decode(text []byte) (any, error) {
	values, err := decodeAll(text)
	if err == nil && len(values) != 1 {
		err = errors.New("more than one value")
	}
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// decodeAll reads JSON values with "|" between them.
func decodeAll(text []byte) ([]any, error) {
	var all []any
	for {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		all = append(all, value)
		rest := bytes.TrimSpace(text[d.InputOffset():])
		if len(rest) == 0 {
			return all, nil
		}
		if rest[0] != '|' {
			return nil, fmt.Errorf("read pattern: %q after a value", rest[0])
		}

		text = rest[1:]
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
}

// match says how got differs from pattern, "" if it does not. What the pattern
// learns is put into learnt.
func match(pattern, got any, at string, learnt vars) string {
	switch p := pattern.(type) {
	case map[string]any:
		return matchObject(p, got, at, learnt)
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(p) {
			return fmt.Sprintf("%s is %s, want an array of %d", at, show(got), len(p))
		}
		for i := range p {
			if diff := match(p[i], items[i], fmt.Sprintf("%s[%d]", at, i), learnt); diff != "" {
				return diff
			}
		}
		return ""
	case string:
		return matchString(p, got, at, learnt)
	}

	if pattern != got { // json.Number, bool or nil
		return fmt.Sprintf("%s is %s, want %v", at, show(got), pattern)
	}
	return ""
}

func matchObject(p map[string]any, got any, at string, learnt vars) string {
	obj, ok := got.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %s, want an object", at, show(got))
	}

	for name, want := range p {
		path := strings.TrimPrefix(at+"."+name, ".")
		value, ok := obj[name]
		if want == "$absent" {
			if value != nil { // null is how many languages write an absent member
				return path + " is there"
			}
			continue
		}
		if !ok {
			return path + " is missing"
		}
		if diff := match(want, value, path, learnt); diff != "" {
			return diff
		}
	}

	return ""
}

func matchString(p string, got any, at string, learnt vars) string {
	text, isText := got.(string)
	ok := false
	switch {
	case p == "$any":
		ok = true
	case p == "$string":
		ok = isText
	case p == "$uuid":
		ok = isText && uuidForm.MatchString(text)
	case p == "$ts":
		_, err := time.Parse(time.RFC3339, text)
		ok = isText && err == nil
	case p == "$int":
		n, isNumber := got.(json.Number)
		i, err := n.Int64()
		ok = isNumber && err == nil && i >= 0
	case p == "$object":
		_, ok = got.(map[string]any)
	case p == "$array":
		_, ok = got.([]any)
	case nameForm.FindString(p) == p && p != "":
		value := learnt[p]
		ok = isText && text != "" && (value == "" || value == escape(text))
		if ok {
			learnt[p] = escape(text)
		}
	case strings.HasPrefix(p, "~"):
		form, err := regexp.Compile("^(?:" + p[1:] + ")$")
		ok = err == nil && isText && form.MatchString(text)
	default:
		ok = isText && text == p
	}

	if !ok {
		return fmt.Sprintf("%s is %s, want %s", at, show(got), p)
	}
	return ""
}

const (
	maxShown = 300 // bytes that are shown of a message
	clipped  = "…"
)

func show(value any) string { return clip(compact(value)) }

func compact(value any) string {
	doc, err := json.Marshal(value)
	if err != nil {
		return "null" // nothing that was decoded gets here
	}
	return string(doc)
}

// escape is text as it stands between the quotes of JSON.
func escape(text string) string {
	doc := compact(text)
	return doc[1 : len(doc)-1]
}

func clip(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + clipped
	}
	return text
}

// member follows a path of names through objects.
func member(doc any, path ...string) any {
	for _, name := range path {
		obj, _ := doc.(map[string]any)
		doc = obj[name]
	}
	return doc
}

func text(doc any, path ...string) string {
	s, _ := member(doc, path...).(string)
	return s
}
