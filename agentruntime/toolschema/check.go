package toolschema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checker checks one value against a schema. The library's own validation cannot be
// stopped, takes time proportional to schema times value, and keeps an error for
// each broken rule, which an agent can turn into gigabytes. A checker stops at the
// first error and when its budget is exhausted.
type checker struct {
	budget
	quiet bool // only the verdict matters, so errors need no text
}

// place is the position of a value: a member or an item of the value at in; nil is
// the whole value. It is turned into a path only when an error needs one.
type place struct {
	in     *place
	member bool
	name   string
	index  int
}

func (p *place) tokens() []string {
	switch {
	case p == nil:
		return nil
	case p.member:
		return append(p.in.tokens(), p.name)
	}
	return append(p.in.tokens(), strconv.Itoa(p.index))
}

// errQuiet stands for every error that needs no text.
var errQuiet = &ValueError{}

func (c *checker) wrong(at *place, reason string) *ValueError {
	if c.quiet || c.exhausted() {
		return errQuiet
	}
	return &ValueError{Path: pointer(at.tokens()), Reason: reason}
}

func (c *checker) violation(at *place, keyword string) *ValueError {
	return c.wrong(at, keyword+" does not hold")
}

// check returns the first rule of s that the value breaks, or nil. It records in
// covered which members and items the rules of s evaluated.
func (c *checker) check(s *jsonschema.Schema, value any, at *place, covered *coverage) *ValueError {
	if !c.spend(1) {
		return errQuiet
	}
	if s.Bool != nil {
		if *s.Bool {
			return nil
		}
		return c.wrong(at, "not allowed")
	}
	if err := c.assertions(s, value, at); err != nil {
		return err
	}

	own := covered
	if hasUnevaluated(s, value) {
		own = newCoverage()
	}
	if s.Ref != nil {
		if err := c.check(s.Ref, value, at, own); err != nil {
			return err
		}
	}

	if err := c.children(s, value, at, own); err != nil {
		return err
	}
	if err := c.composition(s, value, at, own); err != nil {
		return err
	}
	if !hasUnevaluated(s, value) {
		return nil
	}

	covered.everything()
	return c.unevaluated(s, value, at, own)
}

// assertions checks the rules that look at the value alone, not at its members.
func (c *checker) assertions(s *jsonschema.Schema, value any, at *place) *ValueError {
	if s.Types != nil && !s.Types.IsEmpty() && !c.isOfType(*s.Types, value) {
		return c.wrong(at, "got "+typeName(value)+", want "+strings.Join(s.Types.ToStrings(), " or "))
	}
	if s.Const != nil && !c.equal(value, *s.Const) {
		return c.violation(at, "const")
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(one any) bool { return c.equal(value, one) }) {
		return c.violation(at, "enum")
	}
	if text, ok := value.(string); ok && s.Format != nil && !c.hasFormat(s.Format, text) {
		return c.violation(at, "format")
	}

	return nil
}

func (c *checker) children(s *jsonschema.Schema, value any, at *place, covered *coverage) *ValueError {
	switch value := value.(type) {
	case map[string]any:
		return c.object(s, value, at, covered)
	case []any:
		return c.array(s, value, at, covered)
	case string:
		return c.text(s, value, at)
	case json.Number:
		return c.number(s, value, at)
	}
	return nil
}

// composition checks the rules that apply other schemas to the same value.
func (c *checker) composition(s *jsonschema.Schema, value any, at *place, covered *coverage) *ValueError {
	if s.Not != nil && c.fits(s.Not, value, nil) {
		return c.violation(at, "not")
	}

	for _, one := range s.AllOf {
		if err := c.check(one, value, at, covered); err != nil {
			return err
		}
	}

	if len(s.AnyOf) > 0 && c.matches(s.AnyOf, value, covered, true) == 0 {
		return c.first(s.AnyOf, value, at)
	}
	if len(s.OneOf) > 0 {
		switch c.matches(s.OneOf, value, covered, false) {
		case 0:
			return c.first(s.OneOf, value, at)
		case 2:
			return c.violation(at, "oneOf")
		}
	}

	if s.If == nil {
		return nil
	}
	then := s.Else
	if c.fits(s.If, value, covered) {
		then = s.Then
	}
	if then == nil {
		return nil
	}
	return c.check(then, value, at, covered)
}

// fits reports whether the value passes. Only then its evaluation counts, as the
// draft demands.
func (c *checker) fits(s *jsonschema.Schema, value any, all *coverage) bool {
	var own *coverage
	if all != nil {
		own = newCoverage()
	}
	quiet := c.quiet
	c.quiet = true
	err := c.check(s, value, nil, own)
	c.quiet = quiet
	if err != nil || c.exhausted() {
		return false
	}
	all.add(&c.budget, own)
	return true
}

// matches counts the schemas that the value fits, up to two. For anyOf one match
// decides, and the others are checked only if their evaluation is needed.
func (c *checker) matches(all []*jsonschema.Schema, value any, covered *coverage, anyOne bool) (n int) {
	for _, one := range all {
		if n > 0 && anyOne && covered == nil || n == 2 && !anyOne {
			break
		}
		if c.fits(one, value, covered) {
			n++
		}
	}
	return n
}

// first returns the error of a value that fits none of several schemas: the error of
// the first schema.
func (c *checker) first(all []*jsonschema.Schema, value any, at *place) *ValueError {
	if c.quiet {
		return errQuiet
	}
	return c.check(all[0], value, at, nil)
}

// hasUnevaluated reports whether s has an unevaluatedProperties or unevaluatedItems
// rule for a value of this kind.
func hasUnevaluated(s *jsonschema.Schema, value any) bool {
	switch value.(type) {
	case map[string]any:
		return s.UnevaluatedProperties != nil
	case []any:
		return s.UnevaluatedItems != nil
	}
	return false
}

// unevaluated applies that rule to the members and items that are not in covered.
func (c *checker) unevaluated(s *jsonschema.Schema, value any, at *place, covered *coverage) *ValueError {
	if covered.all {
		return nil
	}

	here := place{in: at}
	switch value := value.(type) {
	case map[string]any:
		here.member = true
		for _, here.name = range c.names(value) {
			if covered.names[here.name] {
				continue
			}
			if err := c.check(s.UnevaluatedProperties, value[here.name], &here, nil); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range value {
			if here.index = i; covered.items[i] {
				continue
			}
			if err := c.check(s.UnevaluatedItems, item, &here, nil); err != nil {
				return err
			}
		}
	}

	return nil
}

// coverage is the set of members and items of one value that rules evaluated. A nil
// coverage records nothing, for values that have no unevaluated rule.
type coverage struct {
	all   bool
	names map[string]bool
	items map[int]bool
}

func newCoverage() *coverage { return &coverage{} }

func (s *coverage) name(m *budget, name string) bool {
	if s == nil {
		return true
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
	return m.spend(recordSteps)
}

func (s *coverage) item(m *budget, i int) bool {
	if s == nil {
		return true
	}
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
	return m.spend(recordSteps)
}

func (s *coverage) everything() {
	if s != nil {
		s.all = true
	}
}

// add records the coverage of other, until the budget is exhausted.
func (s *coverage) add(m *budget, other *coverage) {
	if s == nil {
		return
	}
	s.all = s.all || other.all

	for name := range other.names {
		if !s.name(m, name) {
			return
		}
	}

	for i := range other.items {
		if !s.item(m, i) {
			return
		}
	}
}
