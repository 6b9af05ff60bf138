package toolschema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checker holds one value against a schema. The library's own walk cannot be
// stopped, its time is that of the schema times that of the value, and it keeps an
// error for each rule that is broken, which an agent can make into gigabytes.
// This one stops at the first, and when its steps are used up.
type checker struct {
	meter
	quiet bool // only whether a value is good is asked, not what is wrong
}

// place is where a value is: a member, or else an item, of what is at in. It
// becomes a path only for an error; nil is the whole value.
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

// unsaid is what is wrong when nobody asked.
var unsaid = &ValueError{}

func (c *checker) wrong(at *place, reason string) *ValueError {
	if c.quiet || c.spent() {
		return unsaid
	}
	return &ValueError{Path: pointer(at.tokens()), Reason: reason}
}

func (c *checker) broken(at *place, keyword string) *ValueError {
	return c.wrong(at, keyword+" does not hold")
}

// check says which rule of s the value breaks; nil if none. It notes in seen what
// of the value some rule was about.
func (c *checker) check(s *jsonschema.Schema, value any, at *place, seen *seen) *ValueError {
	if !c.pay(1) {
		return unsaid
	}
	if s.Bool != nil {
		if *s.Bool {
			return nil
		}
		return c.wrong(at, "not allowed")
	}
	if err := c.plain(s, value, at); err != nil {
		return err
	}

	mine := seen
	if asksRest(s, value) {
		mine = newSeen()
	}
	if s.Ref != nil {
		if err := c.check(s.Ref, value, at, mine); err != nil {
			return err
		}
	}

	if err := c.within(s, value, at, mine); err != nil {
		return err
	}
	if err := c.combined(s, value, at, mine); err != nil {
		return err
	}
	if !asksRest(s, value) {
		return nil
	}

	seen.everything()
	return c.rest(s, value, at, mine)
}

// plain checks what does not look further into the value.
func (c *checker) plain(s *jsonschema.Schema, value any, at *place) *ValueError {
	if s.Types != nil && !s.Types.IsEmpty() && !c.isOfType(*s.Types, value) {
		return c.wrong(at, "got "+typeName(value)+", want "+strings.Join(s.Types.ToStrings(), " or "))
	}
	if s.Const != nil && !c.equal(value, *s.Const) {
		return c.broken(at, "const")
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(one any) bool { return c.equal(value, one) }) {
		return c.broken(at, "enum")
	}
	if text, ok := value.(string); ok && s.Format != nil && !c.formatted(s.Format, text) {
		return c.broken(at, "format")
	}

	return nil
}

func (c *checker) within(s *jsonschema.Schema, value any, at *place, seen *seen) *ValueError {
	switch value := value.(type) {
	case map[string]any:
		return c.object(s, value, at, seen)
	case []any:
		return c.array(s, value, at, seen)
	case string:
		return c.text(s, value, at)
	case json.Number:
		return c.number(s, value, at)
	}
	return nil
}

// combined checks the rules that are made of others on the same value.
func (c *checker) combined(s *jsonschema.Schema, value any, at *place, seen *seen) *ValueError {
	if s.Not != nil && c.fits(s.Not, value, nil) {
		return c.broken(at, "not")
	}

	for _, one := range s.AllOf {
		if err := c.check(one, value, at, seen); err != nil {
			return err
		}
	}

	if len(s.AnyOf) > 0 && c.matches(s.AnyOf, value, seen, true) == 0 {
		return c.first(s.AnyOf, value, at)
	}
	if len(s.OneOf) > 0 {
		switch c.matches(s.OneOf, value, seen, false) {
		case 0:
			return c.first(s.OneOf, value, at)
		case 2:
			return c.broken(at, "oneOf")
		}
	}

	if s.If == nil {
		return nil
	}
	then := s.Else
	if c.fits(s.If, value, seen) {
		then = s.Then
	}
	if then == nil {
		return nil
	}
	return c.check(then, value, at, seen)
}

// fits reports whether the value is good; only then is it seen.
func (c *checker) fits(s *jsonschema.Schema, value any, all *seen) bool {
	var mine *seen
	if all != nil {
		mine = newSeen()
	}
	quiet := c.quiet
	c.quiet = true
	err := c.check(s, value, nil, mine)
	c.quiet = quiet
	if err != nil || c.spent() {
		return false
	}
	all.add(&c.meter, mine)
	return true
}

// matches counts the schemas that the value fits, to two at most. Where any one
// will do the others are asked only for what they see.
func (c *checker) matches(all []*jsonschema.Schema, value any, seen *seen, anyOne bool) (n int) {
	for _, one := range all {
		if n > 0 && anyOne && seen == nil || n == 2 && !anyOne {
			break
		}
		if c.fits(one, value, seen) {
			n++
		}
	}
	return n
}

// first says what is wrong of a value that fits none of several: what the first
// of them says.
func (c *checker) first(all []*jsonschema.Schema, value any, at *place) *ValueError {
	if c.quiet {
		return unsaid
	}
	return c.check(all[0], value, at, nil)
}

// asksRest reports whether s has a rule for what no other was about.
func asksRest(s *jsonschema.Schema, value any) bool {
	switch value.(type) {
	case map[string]any:
		return s.UnevaluatedProperties != nil
	case []any:
		return s.UnevaluatedItems != nil
	}
	return false
}

// rest checks what of the value is not in seen.
func (c *checker) rest(s *jsonschema.Schema, value any, at *place, seen *seen) *ValueError {
	if seen.all {
		return nil
	}

	here := place{in: at}
	switch value := value.(type) {
	case map[string]any:
		here.member = true
		for _, here.name = range c.names(value) {
			if seen.names[here.name] {
				continue
			}
			if err := c.check(s.UnevaluatedProperties, value[here.name], &here, nil); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range value {
			if here.index = i; seen.items[i] {
				continue
			}
			if err := c.check(s.UnevaluatedItems, item, &here, nil); err != nil {
				return err
			}
		}
	}

	return nil
}

// seen is what of one value rules were about. Nil notes nothing: nobody asks.
type seen struct {
	all   bool
	names map[string]bool
	items map[int]bool
}

func newSeen() *seen { return &seen{} }

func (s *seen) name(m *meter, name string) bool {
	if s == nil {
		return true
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
	return m.pay(noteSteps)
}

func (s *seen) item(m *meter, i int) bool {
	if s == nil {
		return true
	}
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
	return m.pay(noteSteps)
}

func (s *seen) everything() {
	if s != nil {
		s.all = true
	}
}

// add notes what other saw, as far as the steps go.
func (s *seen) add(m *meter, other *seen) {
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
