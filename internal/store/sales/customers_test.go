package sales_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestHasPaid: an order makes nobody a customer, a receipt does.
func TestHasPaid(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("x", "hold")
	for _, to := range []job.State{job.StateDelivering, job.StateSucceeded} {
		if to == job.StateDelivering {
			storetest.ToState(t, s, j, to)
		} else {
			for _, name := range storetest.PathTo("hold", to)[len(storetest.PathTo("hold", job.StateDelivering)):] {
				storetest.Must(t, storetest.DoStep(t, s, j, name))
			}
		}
		if paid, err := s.HasPaid(t.Context(), j.Buyer); err != nil || paid != (to == job.StateSucceeded) {
			t.Errorf("%s: %v, %v", to, paid, err)
		}
	}
	if paid, err := s.HasPaid(t.Context(), storetest.HexID("another")); err != nil || paid {
		t.Errorf("another: %v, %v", paid, err)
	}
}
