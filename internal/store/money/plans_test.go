package money_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// Each of these is asked for by people and by jobs, however many rows there are.
func TestQueriesLookAtNoOther(t *testing.T) {
	k := storetest.Open(t)
	// These are of what is on its way; what is found of refunds is gone through again.
	small := []string{"SCAN open_refunds", "SCAN r"}
	for _, q := range money.Queries {
		k.CheckPlans(t, small, storetest.Query(q))
	}
}
