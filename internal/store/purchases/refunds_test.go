package purchases_test

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func TestBuyerRecordsARefundOnce(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	p := storetest.Purchase("x")
	storetest.Must(t, s.AddPurchase(t.Context(), p))
	if err := s.SetRefund(t.Context(), p.RequestID, 5); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("of an open purchase: %v", err)
	}
	storetest.Must(t, storetest.Reserve(t.Context(), s, p))
	storetest.Must(t, s.Paid(t.Context(), p.RequestID, storetest.PaidFor(p)))
	storetest.Must(t, s.Close(t.Context(), p.RequestID, buyer.StateFailed, "no result"))
	for _, msats := range []int64{900, 1} {
		storetest.Must(t, s.SetRefund(t.Context(), p.RequestID, msats))
	}
	k.Reopen(t)
	if got, err := k.Purchases().Purchase(t.Context(), p.RequestID); err != nil || got.RefundMsats != 900 {
		t.Errorf("refund %d, %v", got.RefundMsats, err)
	}
	storetest.CheckBudget(t, k.Purchases(), storetest.Start, 0, 907)
}
