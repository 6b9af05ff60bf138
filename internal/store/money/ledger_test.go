package money_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestWalletThatNamesNoAmount: the budget is charged with the invoice's amount at
// least, whatever a wallet says that it paid.
func TestWalletThatNamesNoAmount(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	p := storetest.Purchase("x")
	storetest.Must(t, s.AddPurchase(t.Context(), p))
	storetest.Must(t, storetest.Reserve(t.Context(), s, p))
	pay := storetest.PaidFor(p)
	pay.AmountMsats = 0
	storetest.Must(t, s.Paid(t.Context(), p.RequestID, pay))
	storetest.CheckBudget(t, s, storetest.Start, 0, 907)
}

// TestFailureThatCost: a mint keeps its fees of a payment that came back. They are
// spent, so that payments which never succeed cannot cost more than the budget.
func TestFailureThatCost(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	p := storetest.Purchase("x")
	storetest.Must(t, s.AddPurchase(t.Context(), p))
	storetest.Must(t, storetest.Reserve(t.Context(), s, p))
	pay := storetest.FailedFor(p)
	pay.FeeMsats = 3
	storetest.Must(t, s.Unpaid(t.Context(), p.RequestID, pay, buyer.StateFailed, "it came back"))
	storetest.Must(t, s.Unpaid(t.Context(), p.RequestID, pay, buyer.StateFailed, "it came back"))
	storetest.CheckBudget(t, s, storetest.Start, 0, 3)
	k.Reopen(t)
	got, err := k.Purchases().Purchase(t.Context(), p.RequestID)
	if err != nil || got.Payment == nil || got.Payment.FeeMsats != 3 || got.State != buyer.StateFailed {
		t.Errorf("%+v, %v", got.Payment, err)
	}
}
