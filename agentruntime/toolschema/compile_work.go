package toolschema

import (
	"encoding/json"
	"fmt"
	"math"
)

// squareWork is the number of subschemas above which the library's search through
// the subschemas it has seen, whose time is quadratic, dominates the compilation.
const squareWork = 3000

// Compile compiles doc or refuses it with an error that wraps ErrSchema.
func Compile(doc json.RawMessage) (*Schema, error) {
	left := math.MaxInt
	return CompileWithin(doc, &left)
}

// CompileWithin is [Compile] for one of several schemas that share a budget. It
// takes the work off left, even if the schema is refused later, and refuses a schema
// that needs more than is left.
func CompileWithin(doc json.RawMessage, left *int) (*Schema, error) {
	root, err := parse(doc)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	n := parts(root)
	work := n + n*n/squareWork
	if work > *left {
		return nil, fmt.Errorf("%w: %d parts are too many beside the schemas of the other tools", ErrSchema, n)
	}
	*left -= work
	s, err := compile(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	s.work = work
	return s, nil
}

// Work is the effort of compiling s: the number of its objects and booleans, since
// each may be a subschema, and a quadratic share that matters where they are
// thousands. One unit takes about 25 µs.
func (s *Schema) Work() int { return s.work }

func parts(node any) (n int) {
	switch v := node.(type) {
	case map[string]any:
		n = 1
		for _, item := range v {
			n += parts(item)
		}
	case []any:
		for _, item := range v {
			n += parts(item)
		}
	case bool:
		n = 1
	}

	return n
}
