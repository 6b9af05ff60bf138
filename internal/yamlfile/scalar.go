package yamlfile

import (
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decimal matches whole numbers. A leading zero is refused: in YAML 1.1 it means
// octal, which nobody expects in a price.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// fraction matches numbers that may have a decimal point.
var fraction = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

const wantedNumber = "expected a whole number, in decimal digits such as 20000"

// scalar checks a value that is neither a list nor a mapping.
func (c *checker) scalar(node ast.Node, t reflect.Type) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		if _, err := time.ParseDuration(textOf(node)); err != nil || isNumber(node) {
			c.add(node, "%s", expectation(t))
		}

	case isNumberKind(t):
		if !isDecimal(node) {
			c.add(node, "%s", expectation(t))
			return
		}
		bits := t.Bits()
		_, err := strconv.ParseInt(textOf(node), 10, bits)
		if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
			_, err = strconv.ParseUint(textOf(node), 10, bits)
		}
		if err != nil {
			c.add(node, "the number is too large")
		}

	case isFloatKind(t):
		if isQuoted(node) || !fraction.MatchString(textOf(node)) {
			c.add(node, "%s", expectation(t))
		}

	case t.Kind() == reflect.Bool:
		if _, ok := node.(*ast.BoolNode); !ok {
			c.add(node, "%s", expectation(t))
		}

	case t.Kind() == reflect.String:
		switch node.(type) {
		case *ast.StringNode, *ast.LiteralNode:
		case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
			c.add(node, "%s", expectation(t))
		default: // 0x10 would become 16
			c.add(node, "expected a text: put it in quotes")
		}
	}
}

func isNumberKind(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

func isFloatKind(t reflect.Type) bool {
	return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64
}

// isNumber reports whether YAML reads a value as a number, in any notation.
func isNumber(node ast.Node) bool {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

// isDecimal reports whether a value is an unquoted whole number in decimal digits.
func isDecimal(node ast.Node) bool {
	return !isQuoted(node) && decimal.MatchString(textOf(node))
}

func isQuoted(node ast.Node) bool {
	tok := node.GetToken()
	return tok == nil || tok.Type == token.SingleQuoteType || tok.Type == token.DoubleQuoteType
}

func textOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.LiteralNode:
		return ""
	case *ast.StringNode:
		return n.Value
	}
	if tok := node.GetToken(); tok != nil {
		return tok.Value
	}
	return ""
}

// expectation describes the expected value in the terms of the file, not of Go.
func expectation(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "expected a time such as 10m"
	}

	switch t.Kind() {
	case reflect.Bool:
		return "expected true or false"
	case reflect.Slice:
		return "expected a list"
	case reflect.Struct, reflect.Map:
		return "expected a mapping"
	case reflect.String:
		return "expected a text"
	}

	if isFloatKind(t) {
		return "expected a number such as 0.7"
	}
	if isNumberKind(t) {
		return wantedNumber
	}

	return "expected another kind of value"
}
