package purchase

import (
	"slices"
	"testing"
)

// TestStates: the table has every state, every open purchase can fail and be canceled,
// and only a fee leads back to a state that a purchase has left.
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
		for _, to := range next {
			fee := from == StatePaying && to == StateRequested
			if slices.Index(order, to) <= slices.Index(order, from) && !fee {
				t.Errorf("%s leads back to %s", from, to)
			}
		}
		if !from.Terminal() && !(from.Leads(StateFailed) && from.Leads(StateCanceled)) {
			t.Errorf("a purchase that is %s cannot end", from)
		}
	}

	if State("").Terminal() || State("other").Terminal() {
		t.Error("a state that is none is an end")
	}
}
