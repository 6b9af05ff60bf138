package toolschema

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxFormBytes bounds the text of a regular expression: one of a schema, and a
// value whose format is "regex".
const maxFormBytes = 4 << 10

// form is a regular expression whose steps are known.
type form struct {
	*regexp.Regexp
	steps int
}

// compileForm is the validator's engine. A few bytes say ".{1000}", and what is
// compiled has a step for each repetition, so it is measured first.
func compileForm(text string) (jsonschema.Regexp, error) {
	steps, err := formSteps(text)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return &form{re, steps}, err
}

// formSteps is about how many steps a regular expression compiles to, at most
// maxNodes. A match takes as many for each character.
func formSteps(text string) (int, error) {
	if len(text) > maxFormBytes {
		return 0, fmt.Errorf("regular expression of %d bytes, the limit is %d", len(text), maxFormBytes)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("no regular expression: %s", syntaxReason(err))
	}
	if n := steps(tree) + classes(tree); n <= maxNodes {
		return n, nil
	}
	return 0, fmt.Errorf("regular expression of more than %d steps", maxNodes)
}

// formsSteps are those of the regular expressions of one schema, not below it.
// One that does not compile counts nothing: the compiler refuses it, if it is one.
func formsSteps(schema map[string]any) (total int) {
	texts := []string{}
	if text, ok := schema["pattern"].(string); ok {
		texts = append(texts, text)
	}
	if members, ok := schema["patternProperties"].(map[string]any); ok {
		texts = slices.AppendSeq(texts, maps.Keys(members))
	}

	for _, text := range texts {
		if n, err := formSteps(text); err == nil && total <= maxNodes {
			total += n
		}
	}

	return total
}

// steps goes as deep as syntax.Parse lets a tree be (1000), and stops counting
// above maxNodes.
func steps(tree *syntax.Regexp) int {
	n := 1
	if tree.Op == syntax.OpLiteral {
		n = len(tree.Rune)
	}

	for _, sub := range tree.Sub {
		if n += steps(sub); n > maxNodes {
			return maxNodes + 1
		}
	}

	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return n
}

// classes weighs what the classes of characters take; repetitions share them.
func classes(tree *syntax.Regexp) (n int) {
	if tree.Op == syntax.OpCharClass {
		n = len(tree.Rune) / 16
	}
	for _, sub := range tree.Sub {
		n += classes(sub)
	}
	return n
}

// syntaxReason leaves out the text itself, which an error of the parser quotes.
func syntaxReason(err error) string {
	if e, ok := err.(*syntax.Error); ok {
		return string(e.Code)
	}
	return "it does not parse"
}
