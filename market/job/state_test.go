package job

import (
	"slices"
	"testing"
)

// TestStates: the table has every state, a job never comes back to one that it has left,
// and an end is an end.
func TestStates(t *testing.T) {
	order := States()
	if len(order) != len(leads) {
		t.Errorf("%d states are listed, and %d in the table", len(order), len(leads))
	}
	for _, from := range order {
		next, known := leads[from]
		if !known {
			t.Errorf("%s is not in the table", from)
		}
		if from.Terminal() != (len(next) == 0) {
			t.Errorf("Terminal() of %s is %v, and it leads to %v", from, from.Terminal(), next)
		}
		for _, to := range next {
			if slices.Index(order, to) < slices.Index(order, from) || to == from && from != StateRunning {
				t.Errorf("%s leads back to %s", from, to)
			}
			if !slices.Contains(to.Before(), from) {
				t.Errorf("%s leads to %s, whose Before() lacks it: %v", from, to, to.Before())
			}
		}
		if !from.Terminal() && !from.Leads(StateFailed) {
			t.Errorf("a job that is %s cannot fail", from)
		}
	}
	if State("").Terminal() || State("other").Terminal() {
		t.Error("a state that is none is an end")
	}
}
