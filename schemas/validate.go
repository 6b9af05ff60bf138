package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fieldError picks the error with the first path from the validator's tree, so that
// the same document always gets the same answer.
func fieldError(err error) error {
	var invalid *validator.ValidationError
	if !errors.As(err, &invalid) {
		return &FieldError{"", err.Error()}
	}
	var found []*FieldError
	collect(invalid, &found)
	return slices.MinFunc(found, func(a, b *FieldError) int {
		if c := strings.Compare(a.Field, b.Field); c != 0 {
			return c
		}
		return strings.Compare(a.Reason, b.Reason)
	})
}

// collect appends the leaves of the tree to found.
func collect(e *validator.ValidationError, found *[]*FieldError) {
	for _, cause := range e.Causes {
		collect(cause, found)
	}
	if len(e.Causes) > 0 {
		return
	}

	path, reason := location(e.InstanceLocation), ""
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		path, reason = child(path, slices.Min(k.Missing)), "is required"
	case *kind.Enum:
		var names []string
		for _, v := range k.Want {
			names = append(names, fmt.Sprint(v))
		}
		reason = oneOf(names)
	case *kind.Pattern:
		reason = "must match " + k.Want
	case *kind.MinLength:
		reason = fmt.Sprintf("is %d characters, at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		reason = fmt.Sprintf("is %d characters, at most %d", k.Got, k.Want)
	case *kind.MinItems:
		reason = fmt.Sprintf("has %d items, at least %d", k.Got, k.Want)
	case *kind.MinProperties:
		reason = fmt.Sprintf("has %d entries, at least %d", k.Got, k.Want)
	case *kind.Minimum:
		reason = "must be at least " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		reason = "must be more than " + k.Want.RatString()
	case *kind.Maximum:
		reason = "must be at most " + k.Want.RatString()
	default:
		// No schema of this package gets here, because shape checks the other rules.
		reason = "breaks the schema: " + strings.Join(e.ErrorKind.KeywordPath(), "/")
	}

	*found = append(*found, &FieldError{path, reason})
}

// location renders an instance location. It takes every number for an index, which
// is right because no field is named by a number.
func location(tokens []string) string {
	path := ""
	for _, token := range tokens {
		if i, err := strconv.Atoi(token); err == nil && i >= 0 {
			path = item(path, i)
			continue
		}
		path = child(path, token)
	}
	return path
}
