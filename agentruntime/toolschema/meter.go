package toolschema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work on one value. A step is one rule on one value, or as
// much reading as takes about as long. What is as large as the protocol allows and
// has a schema of everyday size needs a fifth of it.
const maxSteps = 16 << 20

// What takes longer than a look.
const (
	noteSteps     = 4   // to note a name or an item
	orderSteps    = 4   // to put a name in order
	numberSteps   = 8   // to read a number exactly
	exponentSteps = 128 // likewise, if it has an exponent
	divisionSteps = 256
)

// ErrSteps is wrapped by the refusal of a value that is too much work for its
// schema. Both may be legal: some thousand rules hold for each of a million items.
var ErrSteps = errors.New("takes too much work to check")

func stepsError() *ValueError {
	return &ValueError{
		Reason: fmt.Sprintf("%s: more than %d steps; a smaller value or a simpler schema takes fewer", ErrSteps, maxSteps),
		Err:    ErrSteps,
	}
}

// meter counts down the steps that are left for one value.
type meter struct{ left int }

// pay reports whether n more steps may be taken. When they may not no later ones
// may either, so whoever asks ends soon after.
func (m *meter) pay(n int) bool {
	if m.left >= 0 {
		m.left -= n
	}
	return m.left >= 0
}

func (m *meter) spent() bool { return m.left < 0 }

// read pays for text that is looked at once.
func (m *meter) read(text string) bool { return m.pay(1 + len(text)/16) }

// match pays for a regular expression, each of whose steps may be taken at each
// character, and matches it.
func (m *meter) match(re jsonschema.Regexp, text string) bool {
	return m.pay(1+re.(*form).steps*(len(text)+1)/4) && re.MatchString(text)
}
