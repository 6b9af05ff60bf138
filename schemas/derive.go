package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/hashing"
)

// draft is the dialect of every published schema.
const draft = "https://json-schema.org/draft/2020-12/schema"

var digestType = reflect.TypeFor[hashing.Digest]()

// patterns are the regular expressions that rule tags name. They end with $ because
// JSON Schema has no \z; no class contains a newline, so both mean the same.
var patterns = map[string]string{
	"digest": `^sha256:[0-9a-f]{64}$`,
	"pubkey": `^[0-9a-f]{64}$`,
	"env":    `^[A-Za-z_][A-Za-z0-9_]{0,127}$`,
}

// build derives the two documents of a job type and compiles them.
func (d definition) build() (*Schema, error) {
	s := d.Schema
	var err error
	if s.input, err = derive(s.request); err != nil {
		return nil, fmt.Errorf("derive input: %w", err)
	}
	if s.output, err = derive(s.result); err != nil {
		return nil, fmt.Errorf("derive output: %w", err)
	}
	if err := verificationDefaults(s.input, d.verification); err != nil {
		return nil, err
	}
	if s.shapeDoc, s.inputValidator, err = compile(s.input, s.ID, "input", s.Title); err != nil {
		return nil, fmt.Errorf("compile input: %w", err)
	}

	if s.inputDoc = s.shapeDoc; d.publish != nil {
		published := s.input.CloneSchemas()
		d.publish(published)
		if s.inputDoc, _, err = compile(published, s.ID, "input", s.Title); err != nil {
			return nil, fmt.Errorf("compile published input: %w", err)
		}
	}

	if s.outputDoc, s.outputValidator, err = compile(s.output, s.ID, "output", s.Title); err != nil {
		return nil, fmt.Errorf("compile output: %w", err)
	}
	return &s, nil
}

// verificationDefaults sets the defaults that differ between job types, which
// the shared struct's tags cannot hold.
func verificationDefaults(input *jsonschema.Schema, def Verification) error {
	for name, value := range map[string]any{
		"mode": def.Mode, "redundancy": def.Redundancy, "adjudication": def.Adjudication,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		setDefault(input.Properties["verification"], name, text)
	}
	setDefault(input, "verification", json.RawMessage(`{}`))
	return nil
}

// setDefault gives a property a default, which makes it optional.
func setDefault(object *jsonschema.Schema, name string, value json.RawMessage) {
	object.Properties[name].Default = value
	object.Required = slices.DeleteFunc(object.Required, func(r string) bool { return r == name })
}

// derive turns a struct type into a schema: names, types, descriptions and
// required fields from the json and jsonschema tags, limits and defaults from
// the rule tags.
func derive(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			digestType: {Type: "string", Pattern: patterns["digest"]},
		},
	})
	if err != nil {
		return nil, err
	}
	return s, refine(t, s)
}

// refine applies rule tags to s, the schema of t. It also removes the type null that
// the library gives slices and pointers: an optional field is left out instead.
func refine(t reflect.Type, s *jsonschema.Schema) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	if t == digestType {
		return nil
	}

	switch t.Kind() {
	case reflect.Struct:
		return refineFields(t, s)
	case reflect.Slice:
		return refine(t.Elem(), s.Items)
	case reflect.Map:
		return refine(t.Elem(), s.AdditionalProperties)
	}

	return nil
}

func refineFields(t reflect.Type, s *jsonschema.Schema) error {
	for field := range fields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil {
			return fmt.Errorf("%s.%s has no property", t, field.Name)
		}
		if err := refine(field.Type, property); err != nil {
			return err
		}

		for rule := range strings.SplitSeq(field.Tag.Get("rule"), ";") {
			key, value, _ := strings.Cut(rule, "=")
			var err error
			if key == "default" {
				setDefault(s, name, defaultValue(property.Type, value))
			} else if key != "" {
				err = apply(property, key, value)
			}
			if err != nil {
				return fmt.Errorf("%s.%s: rule %q: %w", t, field.Name, rule, err)
			}
		}
	}

	return nil
}

// fields yields the fields of a struct, including those of embedded structs.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, field := range reflect.VisibleFields(t) {
			if !field.Anonymous && !yield(field) {
				return
			}
		}
	}
}

// defaultValue reads a default from a tag, in which strings have no quotes.
func defaultValue(jsonType, text string) json.RawMessage {
	if jsonType == "string" {
		return json.RawMessage(strconv.Quote(text))
	}
	return json.RawMessage(text)
}

// apply adds one rule to a schema.
func apply(s *jsonschema.Schema, key, value string) error {
	if rest, ok := strings.CutPrefix(key, "each."); ok {
		element := s.Items
		if element == nil {
			element = s.AdditionalProperties
		}
		return apply(element, rest, value)
	}

	switch key {
	case "enum":
		for name := range strings.SplitSeq(value, "|") {
			s.Enum = append(s.Enum, name)
		}
		return nil
	case "pattern":
		s.Pattern = patterns[value]
		return nil
	case "names":
		s.PropertyNames = &jsonschema.Schema{Pattern: patterns[value]}
		return nil
	}

	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}

	count := int(n)
	switch key {
	case "min":
		s.Minimum = &n
	case "max":
		s.Maximum = &n
	case "xmin":
		s.ExclusiveMinimum = &n
	case "minlen":
		s.MinLength = &count
	case "maxlen":
		s.MaxLength = &count
	case "minitems":
		s.MinItems = &count
	case "maxitems":
		s.MaxItems = &count
	case "minprops":
		s.MinProperties = &count
	case "maxprops":
		s.MaxProperties = &count
	default:
		return errors.New("unknown rule")
	}

	return nil
}

// noRemote refuses every reference that leaves the document (K-11).
type noRemote struct{}

func (noRemote) Load(string) (any, error) { return nil, errors.New("remote $ref is refused") }

// compile renders a schema as a document and prepares its validator.
func compile(s *jsonschema.Schema, id ID, side, title string) (json.RawMessage, *validator.Schema, error) {
	url := "urn:lightwork:schema:" + string(id) + ":" + side
	s.Schema, s.ID, s.Title = draft, url, title
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	tree, err := validator.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, nil, err
	}
	c := validator.NewCompiler()
	c.DefaultDraft(validator.Draft2020)
	c.AssertFormat()
	c.UseLoader(noRemote{})
	if err := c.AddResource(url, tree); err != nil {
		return nil, nil, err
	}
	compiled, err := c.Compile(url)
	return doc, compiled, err
}
