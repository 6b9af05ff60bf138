package toolschema

import (
	"encoding/json"
	"fmt"
	"math"
)

// squareWork is the number of schemas in one document from which on the library's
// search through those that it has met takes longer than all the rest.
const squareWork = 3000

// Compile compiles doc or refuses it with an error that wraps ErrSchema.
func Compile(doc json.RawMessage) (*Schema, error) {
	left := math.MaxInt
	return CompileWithin(doc, &left)
}

// CompileWithin is Compile for one of several schemas. It takes the work, whatever
// comes of it, off what is left for all of them, and refuses what takes more.
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

// Work is what it took to compile s: its objects and booleans, each of which may be
// a schema of its own, and more where they are thousands. One takes about 25 µs.
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
