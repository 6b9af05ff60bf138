package markettest

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// Budget is what is reserved and spent in the days (UTC) that a test may have
// seen: midnight can pass meanwhile.
func (w *World) Budget(t *testing.T, store buyer.Store) (sum buyer.Budget) {
	t.Helper()
	now := time.Now()
	for _, day := range []time.Time{now.Add(-24 * time.Hour), now} {
		b, err := store.BudgetOf(w.Ctx, day)
		Check(t, err)
		sum.ReservedMsats += b.ReservedMsats
		sum.SpentMsats += b.SpentMsats
	}
	return sum
}

// WithinADay waits for the next day (UTC) if this one is nearly over: the budget
// of a day is what the test is about.
func WithinADay(t *testing.T) {
	t.Helper()
	now := time.Now()
	if left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now); left < Patience {
		time.Sleep(left)
	}
}

// SettledUp checks that nothing of the buyer's budget is left reserved, and that
// what it spent is what left its wallet.
func (w *World) SettledUp(t *testing.T, c *Customer, spent int64) {
	t.Helper()
	b := w.Budget(t, c.Store)
	if b.ReservedMsats != 0 || b.SpentMsats != spent {
		t.Errorf("reserved %d, spent %d msats; want 0 and %d", b.ReservedMsats, b.SpentMsats, spent)
	}
	if got := FaucetMsats - w.Balance(t, c.Party); got != spent {
		t.Errorf("%d msats left the wallet, want %d", got, spent)
	}
	totals, err := w.ledger.Audit(w.Ctx)
	Check(t, err)
	if totals.HeldMsats != 0 {
		t.Errorf("%d msats are still held", totals.HeldMsats)
	}
}

// Balance is what a party can spend.
func (w *World) Balance(t *testing.T, p *Party) int64 {
	t.Helper()
	wallet, err := w.ledger.Wallet(w.Ctx, p.token)
	Check(t, err)
	b, err := wallet.Balance(w.Ctx)
	Check(t, err)
	return b.SpendableMsats
}

// Moved checks what came to the provider and what the buyer spent, with
// nothing left on its way.
func (w *World) Moved(t *testing.T, customer *Party, toSeller, fromCustomer int64) {
	t.Helper()
	totals, err := w.ledger.Audit(w.Ctx)
	Check(t, err)
	if totals.HeldMsats != 0 {
		t.Errorf("%d msats are still held", totals.HeldMsats)
	}
	if got := w.Balance(t, w.Seller) - FaucetMsats; got != toSeller {
		t.Errorf("the provider got %d msats, want %d", got, toSeller)
	}
	if got := FaucetMsats - w.Balance(t, customer); got != fromCustomer {
		t.Errorf("the buyer spent %d msats, want %d", got, fromCustomer)
	}
}
