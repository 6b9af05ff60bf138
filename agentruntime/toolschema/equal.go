package toolschema

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// rational returns nil when the budget is exhausted.
func (c *checker) rational(number json.Number) *big.Rat {
	cost := numberSteps
	if strings.ContainsAny(string(number), "eE") {
		cost = exponentSteps
	}
	if !c.spend(cost) {
		return nil
	}
	n, _ := new(big.Rat).SetString(string(number))
	return n
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}

	return "object"
}

// typeBits are the library's type sets with one member each.
var typeBits = func() map[string]jsonschema.Types {
	bits := map[string]jsonschema.Types{}
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		var one jsonschema.Types
		one.Add(name)
		bits[name] = one
	}
	return bits
}()

func (c *checker) isOfType(types jsonschema.Types, value any) bool {
	if types&typeBits[typeName(value)] != 0 {
		return true
	}
	number, ok := value.(json.Number)
	if !ok || types&typeBits["integer"] == 0 {
		return false
	}
	if !strings.ContainsAny(string(number), ".eE") {
		return true
	}

	n := c.rational(number)
	return n != nil && n.IsInt()
}

// equal compares two values as JSON Schema does: 1, 1.0 and 1e0 are equal.
func (c *checker) equal(a, b any) bool {
	if !c.spend(1) {
		return false
	}

	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, one := range a {
			if other, ok := b[name]; !ok || !c.equal(one, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i, one := range a {
			if !c.equal(one, b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		m, n := c.rational(a), c.rational(b)
		return m != nil && n != nil && m.Cmp(n) == 0
	case string:
		b, ok := b.(string)
		return ok && len(a) == len(b) && c.read(a) && a == b
	}

	return a == b
}

// unique reports whether no two items are equal. The library's hash collides for
// whole families of values, and a hostile array would make it compare all pairs.
func (c *checker) unique(array []any) bool {
	keys := make(map[string]bool, len(array))
	for _, item := range array {
		key := string(c.key(nil, item))
		if keys[key] || !c.spend(recordSteps) {
			return false
		}
		keys[key] = true
	}
	return true
}

// key returns the same bytes for equal values, and different bytes for others.
func (c *checker) key(to []byte, value any) []byte {
	if !c.spend(1) {
		return nil
	}

	sized := func(kind byte, n int) []byte { return binary.AppendUvarint(append(to, kind), uint64(n)) }
	switch value := value.(type) {
	case map[string]any:
		to = sized('{', len(value))
		for _, name := range c.names(value) {
			to = c.key(c.key(to, name), value[name])
		}
		return to
	case []any:
		to = sized('[', len(value))
		for _, item := range value {
			to = c.key(to, item)
		}
		return to
	case string:
		c.read(value)
		return append(sized('"', len(value)), value...)
	case json.Number:
		n := c.rational(value)
		if n == nil {
			return nil
		}
		text := n.RatString()
		return append(sized('0', len(text)), text...)
	case bool:
		if value {
			return append(to, 't')
		}
		return append(to, 'f')
	}

	return append(to, 'n')
}
