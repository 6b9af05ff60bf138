package sales_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// Each of these is asked for by people and by jobs, however many rows there are.
func TestQueriesLookAtNoOther(t *testing.T) {
	k := storetest.Open(t)
	// The record has one row; o is what is open.
	small := []string{"SCAN job_record", "SCAN o"}
	for _, q := range sales.Queries {
		k.CheckPlans(t, small, storetest.Query(q))
	}
}
