package schemas

import "math"

// Confidence is how sure of a result its maker says it is, in whole per cent: a
// fraction counts as the integer below it. An objective result is either right or
// wrong: 100. A subjective one that does not say: 0. How relevant a passage is
// says nothing of this (K-21).
func (r *Result) Confidence() int {
	if c, ok := r.Value.(*CodeChunkResult); ok {
		return int(math.Floor(c.Confidence*100 + 1e-9)) // 0.29 is a little less than that
	}
	if s, ok := Lookup(string(r.SchemaID)); ok && s.VerificationMode == Objective {
		return 100
	}
	return 0
}
