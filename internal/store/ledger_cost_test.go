package store

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
)

// TestWalletThatNamesNoAmount: the budget is charged with the invoice's amount at
// least, whatever a wallet says that it paid.
func TestWalletThatNamesNoAmount(t *testing.T) {
	k := open(t)
	s := k.Purchases()
	p := testPurchase("x")
	must(t, s.AddPurchase(t.Context(), p))
	must(t, reserve(t.Context(), s, p))
	pay := paidFor(p)
	pay.AmountMsats = 0
	must(t, s.Paid(t.Context(), p.RequestID, pay))
	checkBudget(t, s, start, 0, 907)
}

// TestFailureThatCost: a mint keeps its fees of a payment that came back. They are
// spent, so that payments which never succeed cannot cost more than the budget.
func TestFailureThatCost(t *testing.T) {
	k := open(t)
	s := k.Purchases()
	p := testPurchase("x")
	must(t, s.AddPurchase(t.Context(), p))
	must(t, reserve(t.Context(), s, p))
	pay := failedFor(p)
	pay.FeeMsats = 3
	must(t, s.Unpaid(t.Context(), p.RequestID, pay, buyer.StateFailed, "it came back"))
	must(t, s.Unpaid(t.Context(), p.RequestID, pay, buyer.StateFailed, "it came back"))
	checkBudget(t, s, start, 0, 3)
	k.reopen(t)
	got, err := k.Purchases().Purchase(t.Context(), p.RequestID)
	if err != nil || got.Payment == nil || got.Payment.FeeMsats != 3 || got.State != buyer.StateFailed {
		t.Errorf("%+v, %v", got.Payment, err)
	}
}
