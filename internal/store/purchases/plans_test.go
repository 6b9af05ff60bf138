package purchases_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// Each of these is asked for by people and by jobs, however many rows there are.
func TestQueriesLookAtNoOther(t *testing.T) {
	k := storetest.Open(t)
	// These have one row, a row for each provider, or are of what is open, failed, given up
	// or had a credit; what is found of the history is gone through again.
	small := []string{
		"SCAN purchase_totals", "SCAN provider_done", "SCAN o", "SCAN s USING INDEX purchase_states_undone", "SCAN u",
		"SCAN purchase_states USING INDEX purchase_states_given_up", "SCAN (subquery-6)",
	}
	for _, q := range purchases.Queries {
		k.CheckPlans(t, small, storetest.Query(q))
	}
}
