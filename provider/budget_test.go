package provider_test

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// budget is what is reserved and spent in the days (UTC) that a test may have
// seen: midnight can pass meanwhile.
func (w *world) budget(t *testing.T, store buyer.Store) (sum buyer.Budget) {
	t.Helper()
	now := time.Now()
	for _, day := range []time.Time{now.Add(-24 * time.Hour), now} {
		b, err := store.BudgetOf(w.ctx, day)
		check(t, err)
		sum.ReservedMsats += b.ReservedMsats
		sum.SpentMsats += b.SpentMsats
	}
	return sum
}

// withinADay waits for the next day (UTC) if this one is nearly over: the budget
// of a day is what the test is about.
func withinADay(t *testing.T) {
	t.Helper()
	now := time.Now()
	if left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now); left < patience {
		time.Sleep(left)
	}
}
