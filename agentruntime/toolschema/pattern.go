package toolschema

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxPatternBytes bounds the text of a regular expression, both in a schema and in a
// value whose format is "regex".
const maxPatternBytes = 4 << 10

// compiled is a regular expression with its price in steps.
type compiled struct {
	*regexp.Regexp
	steps int
}

// compilePattern is the validator's engine of regular expressions. It measures the
// text before it compiles it, because a few bytes such as ".{1000}" compile to an
// instruction for each repetition.
func compilePattern(text string) (jsonschema.Regexp, error) {
	steps, err := patternSteps(text)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return &compiled{re, steps}, err
}

// patternSteps estimates how many instructions a regular expression compiles to, and
// refuses more than maxNodes. A match runs up to that many at each character.
func patternSteps(text string) (int, error) {
	if len(text) > maxPatternBytes {
		return 0, fmt.Errorf("regular expression of %d bytes, the limit is %d", len(text), maxPatternBytes)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("no regular expression: %s", syntaxReason(err))
	}
	if n := treeSteps(tree) + classSteps(tree); n <= maxNodes {
		return n, nil
	}
	return 0, fmt.Errorf("regular expression of more than %d steps", maxNodes)
}

// allPatternSteps adds up the regular expressions of one schema, without those of
// its subschemas. A text that does not parse counts nothing: the compiler refuses it
// if it really is a pattern.
func allPatternSteps(schema map[string]any) (total int) {
	texts := []string{}
	if text, ok := schema["pattern"].(string); ok {
		texts = append(texts, text)
	}
	if members, ok := schema["patternProperties"].(map[string]any); ok {
		texts = slices.AppendSeq(texts, maps.Keys(members))
	}

	for _, text := range texts {
		if n, err := patternSteps(text); err == nil && total <= maxNodes {
			total += n
		}
	}

	return total
}

// treeSteps stops counting above maxNodes. Its recursion is bounded: syntax.Parse
// allows a depth of 1000.
func treeSteps(tree *syntax.Regexp) int {
	n := 1
	if tree.Op == syntax.OpLiteral {
		n = len(tree.Rune)
	}

	for _, sub := range tree.Sub {
		if n += treeSteps(sub); n > maxNodes {
			return maxNodes + 1
		}
	}

	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return n
}

// classSteps counts the memory of character classes, which repetitions share.
func classSteps(tree *syntax.Regexp) (n int) {
	if tree.Op == syntax.OpCharClass {
		n = len(tree.Rune) / 16
	}
	for _, sub := range tree.Sub {
		n += classSteps(sub)
	}
	return n
}

// syntaxReason drops the text of the pattern, which the parser's error quotes.
func syntaxReason(err error) string {
	if e, ok := err.(*syntax.Error); ok {
		return string(e.Code)
	}
	return "it does not parse"
}
