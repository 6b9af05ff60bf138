package toolschema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work on one value. A step is one rule on one value, or
// reading that takes about as long. The largest value that the protocol allows,
// with a schema of usual size, needs a fifth of it.
const maxSteps = 16 << 20

// Prices of operations, in steps.
const (
	recordSteps   = 4   // record a name or an item
	sortSteps     = 4   // sort a name
	numberSteps   = 8   // read a number exactly
	exponentSteps = 128 // read a number with an exponent exactly
	divisionSteps = 256 // test multipleOf
)

// ErrSteps is wrapped by the refusal of a value that is too much work for its
// schema. Value and schema may both be legal: a thousand rules can apply to each of
// a million items.
var ErrSteps = errors.New("takes too much work to check")

func stepsError() *ValueError {
	return &ValueError{
		Reason: fmt.Sprintf("%s: more than %d steps; a smaller value or a simpler schema takes fewer", ErrSteps, maxSteps),
		Err:    ErrSteps,
	}
}

// budget is the number of steps left for one value.
type budget struct{ left int }

// spend takes n steps off the budget and reports whether they were there. An
// exhausted budget stays exhausted, so a checker that ignores one refusal still ends
// at the next.
func (m *budget) spend(n int) bool {
	if m.left >= 0 {
		m.left -= n
	}
	return m.left >= 0
}

func (m *budget) exhausted() bool { return m.left < 0 }

// read spends the steps of reading text once.
func (m *budget) read(text string) bool { return m.spend(1 + len(text)/16) }

// match spends the steps of a regular expression, which may all be taken at every
// character, and then matches it.
func (m *budget) match(re jsonschema.Regexp, text string) bool {
	return m.spend(1+re.(*compiled).steps*(len(text)+1)/4) && re.MatchString(text)
}
