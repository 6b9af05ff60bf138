package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/hashing"
)

// complete are requests with every part that has rules of its own.
var complete = map[ID]string{
	SandboxRun: `{"sandbox":{"image_digest":"` + ones + `","resources":{"cpus":1}},"commands":[{"cmd":"a","workdir":"b"}],"env":{"A":"b"},
		"verification":{"expected":{"exit_codes":[1],"artifacts":{"a":"` + zeros + `"}}}}`,
	RetrievalRerank: `{"user_task":"x","k":1,"candidates":[{"id":"1","content":"","metadata":{"a":[1,{"b":null}]},"original_score":1e30}]}`,
	TextGeneration:  `{"prompt":"p","system":"s","max_tokens":1,"temperature":0.5,"top_p":1,"seed":-1}`,
}

const textResult = `{"text":"t","finish_reason":"length",` + provenance + `}`

// sides are the two documents of every job type with texts that keep them.
func sides() []side {
	var all []side
	for _, s := range All() {
		in := side{string(s.ID) + " input", s.input, s.inputValidator, nil}
		out := side{string(s.ID) + " output", s.output, s.outputValidator, nil}
		for _, text := range []string{minimal[s.ID], complete[s.ID]} {
			if text != "" {
				in.texts = append(in.texts, text)
			}
		}
		if out.texts = []string{minimalResults[s.ID]}; s.ID == TextGeneration {
			out.texts[0] = textResult
		}
		all = append(all, in, out)
	}
	return all
}

type side struct {
	name  string
	s     *jsonschema.Schema
	v     *validator.Schema
	texts []string
}

// agree fails unless keep says of a document what shape and the validator say,
// and fills the same defaults. It reports whether the document conforms, and
// whether shape refuses it, so that the validator never sees it.
func (d side) agree(t *testing.T, doc []byte) (conforms, shaped bool) {
	t.Helper()
	text, err := hashing.Strict(doc)
	if err != nil {
		return false, false
	}
	tree, err := decodeTree(text)
	if err != nil {
		t.Fatal(err)
	}
	complete, ok := conform(d.s, text)
	var f filler
	refusal := f.shape(d.s, tree, nil)
	if shaped = refusal == nil; shaped {
		refusal = d.v.Validate(tree)
	}
	if ok != (refusal == nil) {
		t.Fatalf("%s: %.300s conforms: %v, but shape and the validator say %v", d.name, text, ok, refusal)
	}
	if !ok {
		return false, shaped
	}
	same, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	want, wantErr := hashing.Canonical(same)
	got, gotErr := hashing.Canonical(complete)
	if wantErr != nil || gotErr != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: %.300s with defaults is %.300s (%v), want %.300s (%v)", d.name, text, got, gotErr, want, wantErr)
	}
	return true, true
}

// Each value of each document is replaced by those on both sides of its bounds.
func TestRulesAreTheValidators(t *testing.T) {
	kept, broken := 0, 0
	for _, d := range sides() {
		for _, text := range d.texts {
			tree, err := decodeTree([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if ok, _ := d.agree(t, []byte(text)); !ok {
				t.Errorf("%s: %s breaks its schema", d.name, text)
			}
			vary(d.s, tree, func(put any) { tree = put }, func() {
				doc, err := json.Marshal(tree)
				if err != nil {
					t.Fatal(err)
				}
				switch ok, shaped := d.agree(t, doc); {
				case ok:
					kept++
				case shaped:
					broken++
				}
			})
		}
	}
	if kept < 200 || broken < 200 {
		t.Errorf("%d documents kept the rules and %d broke them: too few to tell", kept, broken)
	}
}

// vary puts other values in the place of value and of everything in it, tries
// each, and puts the old ones back.
func vary(s *jsonschema.Schema, value any, put func(any), try func()) {
	for _, other := range bounds(s, value) {
		put(other)
		try()
	}
	put(value)
	switch value := value.(type) {
	case map[string]any:
		for name, element := range value {
			property := s.Properties[name]
			if property == nil {
				property = s.AdditionalProperties
			}
			if property == nil {
				continue
			}
			delete(value, name)
			try()
			vary(property, element, func(put any) { value[name] = put }, try)
		}
	case []any:
		for i, element := range value {
			if s.Items == nil {
				break
			}
			vary(s.Items, element, func(put any) { value[i] = put }, try)
		}
	}
}

func bounds(s *jsonschema.Schema, value any) []any {
	var others []any
	around := func(n *int, what func(int) any) {
		for _, near := range []int{-1, 0, 1} {
			if n != nil && *n+near >= 0 {
				others = append(others, what(*n+near))
			}
		}
	}
	long := func(n int) any { return strings.Repeat("ä", n) }
	around(s.MinLength, long)
	around(s.MaxLength, long)
	around(s.MinItems, func(n int) any { return slices.Repeat([]any{first(value)}, n) })
	around(s.MinProperties, func(n int) any {
		object := map[string]any{}
		for i := range n {
			object[fmt.Sprint("a", i)] = zeros
		}
		return object
	})
	for _, bound := range []*float64{s.Minimum, s.Maximum, s.ExclusiveMinimum} {
		if bound == nil {
			continue
		}
		for _, near := range []float64{-1, -1e-9, 0, 1e-9, 1} {
			others = append(others, *bound+near)
		}
	}
	if s.Enum != nil || s.Pattern != "" {
		others = append(others, append([]any{"", "x", zeros + "\n", zeros + "0", pubkey, pubkey + "\n", strings.ToUpper(pubkey)}, s.Enum...)...)
	}
	return others
}

func first(value any) any {
	if list, _ := value.([]any); len(list) > 0 {
		return list[0]
	}
	return "x"
}

// A keyword that keep does not know would be one that nobody looks at.
func TestKeepKnowsEveryKeyword(t *testing.T) {
	known := []string{
		"$schema", "$id", "title", "description", "default", "type",
		"properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties",
		"items", "minItems", "maxItems",
		"enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
	}
	for _, s := range All() {
		for _, doc := range []json.RawMessage{s.shapeDoc, s.outputDoc} {
			tree, err := validator.UnmarshalJSON(bytes.NewReader(doc))
			if err != nil {
				t.Fatal(err)
			}
			walkKeywords(tree, func(keyword string) {
				if !slices.Contains(known, keyword) {
					t.Errorf("%s: keyword %s", s.ID, keyword)
				}
			})
		}
	}
}

func walkKeywords(node any, see func(string)) {
	schema, _ := node.(map[string]any)
	for keyword, value := range schema {
		see(keyword)
		switch keyword {
		case "properties":
			for _, property := range value.(map[string]any) {
				walkKeywords(property, see)
			}
		case "items", "additionalProperties", "propertyNames":
			walkKeywords(value, see)
		}
	}
}

// FuzzRules: a document breaks a rule for keep if and only if it does for shape
// or the validator.
func FuzzRules(f *testing.F) {
	all := sides()
	for i, d := range all {
		for _, text := range d.texts {
			f.Add(uint8(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, doc []byte) {
		if len(doc) < 1<<16 {
			all[int(which)%len(all)].agree(t, doc)
		}
	})
}

func TestMatchersAreThePatterns(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	texts := []string{"", hex, "sha256:" + hex, "sha256:", "sha256:" + hex[1:], hex + "0", hex[1:] + "g", hex[1:] + "A", hex[1:] + "\n", "sha256:" + hex + "\n", "PATH", "_1", "1_", "A B", "A\n"}
	for name, pattern := range patterns {
		matches, again := matchers[pattern], regexp.MustCompile(pattern)
		if matches == nil {
			t.Errorf("%s: no matcher", name)
			continue
		}
		for _, text := range texts {
			if got, want := matches([]byte(text)), again.MatchString(text); got != want {
				t.Errorf("%s: %q matches: %v", name, text, got)
			}
		}
	}
}
