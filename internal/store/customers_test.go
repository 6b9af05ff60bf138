package store

import (
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
)

// TestHasPaid: an order makes nobody a customer, a receipt does.
func TestHasPaid(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("x", "hold")
	for _, to := range []job.State{job.StateDelivering, job.StateSucceeded} {
		if to == job.StateDelivering {
			toState(t, s, j, to)
		} else {
			for _, name := range pathTo("hold", to)[len(pathTo("hold", job.StateDelivering)):] {
				must(t, doStep(t, s, j, name))
			}
		}
		if paid, err := s.HasPaid(t.Context(), j.Buyer); err != nil || paid != (to == job.StateSucceeded) {
			t.Errorf("%s: %v, %v", to, paid, err)
		}
	}
	if paid, err := s.HasPaid(t.Context(), hexID("another")); err != nil || paid {
		t.Errorf("another: %v, %v", paid, err)
	}
}
