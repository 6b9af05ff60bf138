package toolschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// names are those of an object, in order: the same value is always told the same.
func (c *checker) names(object map[string]any) []string {
	if !c.pay(orderSteps * len(object)) {
		return nil
	}
	return slices.Sorted(maps.Keys(object))
}

func (c *checker) object(s *jsonschema.Schema, object map[string]any, at *place, seen *seen) *ValueError {
	switch n := len(object); {
	case s.MinProperties != nil && n < *s.MinProperties:
		return c.broken(at, "minProperties")
	case s.MaxProperties != nil && n > *s.MaxProperties:
		return c.broken(at, "maxProperties")
	}

	if err := c.required(s.Required, object, at); err != nil {
		return err
	}
	if err := c.members(s, object, at, seen); err != nil {
		return err
	}

	if s.PropertyNames != nil {
		for _, name := range c.names(object) {
			if err := c.check(s.PropertyNames, name, at, nil); err != nil {
				return err
			}
		}
	}

	return c.dependent(s, object, at, seen)
}

func (c *checker) dependent(s *jsonschema.Schema, object map[string]any, at *place, seen *seen) *ValueError {
	if !c.pay(orderSteps * (len(s.DependentSchemas) + len(s.DependentRequired) + len(s.Dependencies))) {
		return unsaid
	}

	for _, name := range given(s.DependentSchemas, object) {
		if err := c.check(s.DependentSchemas[name], object, at, seen); err != nil {
			return err
		}
	}

	for _, name := range given(s.DependentRequired, object) {
		if err := c.required(s.DependentRequired[name], object, at); err != nil {
			return err
		}
	}

	// Both in one, which earlier drafts have and this one still describes.
	for _, name := range given(s.Dependencies, object) {
		var err *ValueError
		switch rule := s.Dependencies[name].(type) {
		case []string:
			err = c.required(rule, object, at)
		case *jsonschema.Schema:
			err = c.check(rule, object, at, seen)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// given are the names, in order, that have a rule and that the object has.
func given[R any](rules map[string]R, object map[string]any) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(rules)), func(name string) bool { _, ok := object[name]; return !ok })
}

func (c *checker) required(names []string, object map[string]any, at *place) *ValueError {
	if !c.pay(len(names)) {
		return unsaid
	}
	lacks := func(name string) bool { _, ok := object[name]; return !ok }
	if !slices.ContainsFunc(names, lacks) {
		return nil
	}
	if c.quiet {
		return unsaid
	}

	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !lacks(name) })
	return c.wrong(at, wire.SafeText("missing "+strings.Join(missing, ", ")))
}

func (c *checker) members(s *jsonschema.Schema, object map[string]any, at *place, seen *seen) *ValueError {
	if len(s.Properties) == 0 && len(s.PatternProperties) == 0 && s.AdditionalProperties == nil {
		return nil
	}

	here := place{in: at, member: true}
	for _, name := range c.names(object) {
		here.name = name
		below := c.rules(s, name)
		if len(below) == 0 && s.AdditionalProperties == nil {
			continue
		}
		if !seen.name(&c.meter, name) {
			return unsaid
		}

		if len(below) == 0 {
			switch more := s.AdditionalProperties.(type) {
			case bool:
				if !more {
					return c.wrong(at, wire.SafeText("unknown "+name))
				}
			case *jsonschema.Schema:
				below = append(below, more)
			}
		}

		for _, one := range below {
			if err := c.check(one, object[name], &here, nil); err != nil {
				return err
			}
		}
	}

	return nil
}

// rules are those for a member of that name.
func (c *checker) rules(s *jsonschema.Schema, name string) (below []*jsonschema.Schema) {
	if one, ok := s.Properties[name]; ok {
		below = append(below, one)
	}
	for re, one := range s.PatternProperties {
		if c.match(re, name) {
			below = append(below, one)
		}
	}
	slices.SortFunc(below, func(a, b *jsonschema.Schema) int { return strings.Compare(a.Location, b.Location) })
	return below
}

func (c *checker) array(s *jsonschema.Schema, array []any, at *place, seen *seen) *ValueError {
	if s.MinItems != nil && len(array) < *s.MinItems {
		return c.broken(at, "minItems")
	}
	if s.MaxItems != nil && len(array) > *s.MaxItems {
		return c.broken(at, "maxItems")
	}
	if s.UniqueItems && !c.unique(array) {
		return c.broken(at, "uniqueItems")
	}

	here := place{in: at}
	for i, item := range array {
		rule := s.Items2020
		if i < len(s.PrefixItems) {
			rule = s.PrefixItems[i]
		}
		if rule == nil {
			break
		}
		here.index = i
		if err := c.check(rule, item, &here, nil); err != nil {
			return err
		}
		if !seen.item(&c.meter, i) {
			return unsaid
		}
	}

	if s.Contains == nil {
		return nil
	}
	return c.contains(s, array, at, seen)
}

func (c *checker) contains(s *jsonschema.Schema, array []any, at *place, seen *seen) *ValueError {
	n, least := 0, 1
	for i, item := range array {
		if c.fits(s.Contains, item, nil) {
			n++
			seen.item(&c.meter, i)
		}
		if c.spent() {
			return unsaid
		}
	}

	keyword := "contains"
	if s.MinContains != nil {
		keyword, least = "minContains", *s.MinContains
	}

	switch {
	case n < least:
		return c.broken(at, keyword)
	case s.MaxContains != nil && n > *s.MaxContains:
		return c.broken(at, "maxContains")
	}

	return nil
}

func (c *checker) text(s *jsonschema.Schema, text string, at *place) *ValueError {
	if s.MinLength != nil || s.MaxLength != nil {
		if !c.read(text) {
			return unsaid
		}
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			return c.broken(at, "minLength")
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			return c.broken(at, "maxLength")
		}
	}

	if s.Pattern != nil && !c.match(s.Pattern, text) {
		return c.broken(at, "pattern")
	}
	return nil
}

// formatted reports whether text is of the format. A regular expression need not
// be compiled for that.
func (c *checker) formatted(format *jsonschema.Format, text string) bool {
	if !c.pay(1 + len(text)/2) {
		return false
	}
	if format.Name == "regex" {
		_, err := formSteps(text)
		return err == nil
	}
	return format.Validate(text) == nil
}

func (c *checker) number(s *jsonschema.Schema, number json.Number, at *place) *ValueError {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return nil
	}

	n := c.rational(number)
	switch {
	case n == nil:
		return unsaid
	case s.Minimum != nil && n.Cmp(s.Minimum) < 0:
		return c.broken(at, "minimum")
	case s.Maximum != nil && n.Cmp(s.Maximum) > 0:
		return c.broken(at, "maximum")
	case s.ExclusiveMinimum != nil && n.Cmp(s.ExclusiveMinimum) <= 0:
		return c.broken(at, "exclusiveMinimum")
	case s.ExclusiveMaximum != nil && n.Cmp(s.ExclusiveMaximum) >= 0:
		return c.broken(at, "exclusiveMaximum")
	}

	if s.MultipleOf == nil {
		return nil
	}
	if !c.pay(divisionSteps) || !n.Quo(n, s.MultipleOf).IsInt() {
		return c.broken(at, "multipleOf")
	}

	return nil
}
