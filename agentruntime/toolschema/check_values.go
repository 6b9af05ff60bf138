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

// names returns the names of an object in order, so that the same value always gets
// the same error.
func (c *checker) names(object map[string]any) []string {
	if !c.spend(sortSteps * len(object)) {
		return nil
	}
	return slices.Sorted(maps.Keys(object))
}

func (c *checker) object(s *jsonschema.Schema, object map[string]any, at *place, covered *coverage) *ValueError {
	switch n := len(object); {
	case s.MinProperties != nil && n < *s.MinProperties:
		return c.violation(at, "minProperties")
	case s.MaxProperties != nil && n > *s.MaxProperties:
		return c.violation(at, "maxProperties")
	}

	if err := c.required(s.Required, object, at); err != nil {
		return err
	}
	if err := c.members(s, object, at, covered); err != nil {
		return err
	}

	if s.PropertyNames != nil {
		for _, name := range c.names(object) {
			if err := c.check(s.PropertyNames, name, at, nil); err != nil {
				return err
			}
		}
	}

	return c.dependent(s, object, at, covered)
}

func (c *checker) dependent(s *jsonschema.Schema, object map[string]any, at *place, covered *coverage) *ValueError {
	if !c.spend(sortSteps * (len(s.DependentSchemas) + len(s.DependentRequired) + len(s.Dependencies))) {
		return errQuiet
	}

	for _, name := range applicable(s.DependentSchemas, object) {
		if err := c.check(s.DependentSchemas[name], object, at, covered); err != nil {
			return err
		}
	}

	for _, name := range applicable(s.DependentRequired, object) {
		if err := c.required(s.DependentRequired[name], object, at); err != nil {
			return err
		}
	}

	// "dependencies" of earlier drafts joins both; this draft still describes it.
	for _, name := range applicable(s.Dependencies, object) {
		var err *ValueError
		switch rule := s.Dependencies[name].(type) {
		case []string:
			err = c.required(rule, object, at)
		case *jsonschema.Schema:
			err = c.check(rule, object, at, covered)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// applicable returns, in order, the names of the rules whose member the object has.
func applicable[R any](rules map[string]R, object map[string]any) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(rules)), func(name string) bool { _, ok := object[name]; return !ok })
}

func (c *checker) required(names []string, object map[string]any, at *place) *ValueError {
	if !c.spend(len(names)) {
		return errQuiet
	}
	lacks := func(name string) bool { _, ok := object[name]; return !ok }
	if !slices.ContainsFunc(names, lacks) {
		return nil
	}
	if c.quiet {
		return errQuiet
	}

	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !lacks(name) })
	return c.wrong(at, wire.SafeText("missing "+strings.Join(missing, ", ")))
}

func (c *checker) members(s *jsonschema.Schema, object map[string]any, at *place, covered *coverage) *ValueError {
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
		if !covered.name(&c.budget, name) {
			return errQuiet
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

// rules returns the schemas for a member of that name.
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

func (c *checker) array(s *jsonschema.Schema, array []any, at *place, covered *coverage) *ValueError {
	if s.MinItems != nil && len(array) < *s.MinItems {
		return c.violation(at, "minItems")
	}
	if s.MaxItems != nil && len(array) > *s.MaxItems {
		return c.violation(at, "maxItems")
	}
	if s.UniqueItems && !c.unique(array) {
		return c.violation(at, "uniqueItems")
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
		if !covered.item(&c.budget, i) {
			return errQuiet
		}
	}

	if s.Contains == nil {
		return nil
	}
	return c.contains(s, array, at, covered)
}

func (c *checker) contains(s *jsonschema.Schema, array []any, at *place, covered *coverage) *ValueError {
	n, least := 0, 1
	for i, item := range array {
		if c.fits(s.Contains, item, nil) {
			n++
			covered.item(&c.budget, i)
		}
		if c.exhausted() {
			return errQuiet
		}
	}

	keyword := "contains"
	if s.MinContains != nil {
		keyword, least = "minContains", *s.MinContains
	}

	switch {
	case n < least:
		return c.violation(at, keyword)
	case s.MaxContains != nil && n > *s.MaxContains:
		return c.violation(at, "maxContains")
	}

	return nil
}

func (c *checker) text(s *jsonschema.Schema, text string, at *place) *ValueError {
	if s.MinLength != nil || s.MaxLength != nil {
		if !c.read(text) {
			return errQuiet
		}
		n := utf8.RuneCountInString(text)
		if s.MinLength != nil && n < *s.MinLength {
			return c.violation(at, "minLength")
		}
		if s.MaxLength != nil && n > *s.MaxLength {
			return c.violation(at, "maxLength")
		}
	}

	if s.Pattern != nil && !c.match(s.Pattern, text) {
		return c.violation(at, "pattern")
	}
	return nil
}

// hasFormat reports whether text has the format. It parses a regular expression
// without compiling it, which could take much memory.
func (c *checker) hasFormat(format *jsonschema.Format, text string) bool {
	if !c.spend(1 + len(text)/2) {
		return false
	}
	if format.Name == "regex" {
		_, err := patternSteps(text)
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
		return errQuiet
	case s.Minimum != nil && n.Cmp(s.Minimum) < 0:
		return c.violation(at, "minimum")
	case s.Maximum != nil && n.Cmp(s.Maximum) > 0:
		return c.violation(at, "maximum")
	case s.ExclusiveMinimum != nil && n.Cmp(s.ExclusiveMinimum) <= 0:
		return c.violation(at, "exclusiveMinimum")
	case s.ExclusiveMaximum != nil && n.Cmp(s.ExclusiveMaximum) >= 0:
		return c.violation(at, "exclusiveMaximum")
	}

	if s.MultipleOf == nil {
		return nil
	}
	if !c.spend(divisionSteps) || !n.Quo(n, s.MultipleOf).IsInt() {
		return c.violation(at, "multipleOf")
	}

	return nil
}
