package flow

import (
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
)

// TestEveryOpenStateHasAStep: a job that is open is never without a next step, and one
// that has ended has none.
func TestEveryOpenStateHasAStep(t *testing.T) {
	for _, state := range job.States() {
		if _, has := steps[state]; has == state.Terminal() {
			t.Errorf("%s: it has a step: %v, and is an end: %v", state, has, state.Terminal())
		}
	}
	if len(steps) == 0 {
		t.Error("there are no steps")
	}
}

// TestReasonsAfterARunSayNothingOfTheRequest: what a job found out is in no word that a
// buyer hears who has not paid for it.
func TestReasonsAfterARunSayNothingOfTheRequest(t *testing.T) {
	words := map[string]bool{}
	for _, code := range job.Codes() {
		reason := job.Because(code, "the password is 1234")
		if got := tellable(reason, 0); got != reason {
			t.Errorf("before a run: %s", got)
		}
		got := tellable(reason, 1)
		if got.Detail == reason.Detail {
			t.Errorf("after a run: %s", got)
		}
		words[got.String()] = true
	}
	if len(words) > 6 {
		t.Errorf("%d reasons after a run, want six at most: %v", len(words), words)
	}
}
