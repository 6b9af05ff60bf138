package flow

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// TestEveryOpenStateHasItsSteps: whatever comes, there is something to do about a purchase
// that is open, and nothing about one that has ended.
func TestEveryOpenStateHasItsSteps(t *testing.T) {
	for _, state := range purchase.States() {
		st, open := stepsOf(state)
		if open == state.Terminal() {
			t.Errorf("%s is an end: %v, and has steps: %v", state, state.Terminal(), open)
		}
		if open && (st.offer == nil || st.refusal == nil || st.silence == nil || st.settle == nil) {
			t.Errorf("%s lacks a step", state)
		}
	}
}
