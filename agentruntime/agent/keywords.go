package agent

import (
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// typeOf is the JSON type of a value.
func typeOf(value any) string {
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

func typeRule(operand any, _ map[string]any) (inputSchema, error) {
	names, isList := operand.([]any)
	if !isList {
		names = []any{operand}
	}

	var want []string
	for _, n := range names {
		name, _ := n.(string)
		if !slices.Contains([]string{"null", "boolean", "object", "array", "number", "string", "integer"}, name) {
			return inputSchema{}, errors.New("names no JSON type")
		}
		want = append(want, name)
	}

	return inputSchema{exact: true, rules: []rule{func(value any, path string) string {
		got := typeOf(value)
		if slices.Contains(want, got) || got == "number" && slices.Contains(want, "integer") && number(value).IsInt() {
			return ""
		}
		return at(path, "got "+got+", want "+strings.Join(want, " or "))
	}}}, nil
}

func enumRule(operand any, _ map[string]any) (inputSchema, error) {
	allowed, ok := operand.([]any)
	if !ok {
		return inputSchema{}, errors.New("must be an array")
	}
	return predicate(func(value any) bool {
		return slices.ContainsFunc(allowed, func(a any) bool { return equal(a, value) })
	}, "enum does not hold"), nil
}

func constRule(operand any, _ map[string]any) (inputSchema, error) {
	return predicate(func(value any) bool { return equal(operand, value) }, "const does not hold"), nil
}

// equal compares two values as JSON Schema does: 1.0 is 1.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n := number(b)
		return n != nil && number(a).Cmp(n) == 0
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, equal)
	case map[string]any:
		object, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, object, equal)
	}

	return typeOf(a) == typeOf(b) && a == b
}

// number is a value's exact number, nil of any other value. Its digits and its
// exponent are bounded by what has read it.
func number(value any) *big.Rat {
	text, ok := value.(json.Number)
	if !ok {
		return nil
	}
	n, _ := new(big.Rat).SetString(string(text))
	return n
}

func characters(value any) *big.Rat {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	return big.NewRat(int64(utf8.RuneCountInString(text)), 1)
}

func items(value any) *big.Rat {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	return big.NewRat(int64(len(list)), 1)
}

func members(value any) *big.Rat {
	object, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	return big.NewRat(int64(len(object)), 1)
}

// limitKeyword is a keyword that compares what measure finds in a value, if anything,
// with its operand.
func limitKeyword(name string, measure func(any) *big.Rat, good func(order int) bool) keyword {
	return func(operand any, _ map[string]any) (inputSchema, error) {
		limit := number(operand)
		if limit == nil {
			return inputSchema{}, errors.New("must be a number")
		}
		return predicate(func(value any) bool {
			size := measure(value)
			return size == nil || good(size.Cmp(limit))
		}, name+" does not hold"), nil
	}
}

func patternRule(operand any, _ map[string]any) (inputSchema, error) {
	text, ok := operand.(string)
	if !ok {
		return inputSchema{}, errors.New("must be a string")
	}
	form, err := regexp.Compile(text)
	if err != nil {
		return inputSchema{}, errors.New("no regular expression")
	}

	return predicate(func(value any) bool {
		text, ok := value.(string)
		return !ok || form.MatchString(text)
	}, "pattern does not hold"), nil
}
