package purchases_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestOrderIsReadBack: by each of its requests, from a database that was closed and
// opened; it ends with a request that is done or canceled, or when it is told to.
func TestOrderIsReadBack(t *testing.T) {
	for name, end := range map[string]func(s *purchases.Store, first, second buyer.Purchase) error{
		"done": func(s *purchases.Store, _, second buyer.Purchase) error {
			storetest.Must(t, storetest.Reserve(t.Context(), s, second))
			storetest.Must(t, s.Paid(t.Context(), second.RequestID, storetest.PaidFor(second)))
			return s.Close(t.Context(), second.RequestID, buyer.StateDone, "")
		},
		"canceled": func(s *purchases.Store, _, second buyer.Purchase) error {
			return s.CloseUnpaid(t.Context(), second.RequestID, buyer.StateCanceled, "by the buyer")
		},
		"told to": func(s *purchases.Store, first, second buyer.Purchase) error {
			storetest.Must(t, s.CloseUnpaid(t.Context(), second.RequestID, buyer.StateFailed, "no_answer: silent"))
			return s.EndOrder(t.Context(), first.RequestID)
		},
	} {
		k := storetest.Open(t)
		first, second := storetest.FillOrder(t, k.Purchases(), "order")
		k.Reopen(t)
		s := k.Purchases()
		for _, id := range []string{first.RequestID, second.RequestID} {
			o, err := s.PlacedOrder(t.Context(), id)
			want := []buyer.OrderRequest{{RequestID: first.RequestID, Provider: first.Provider}, {RequestID: second.RequestID, Provider: second.Provider}}
			if err != nil || !o.Open || o.ID != first.RequestID || string(o.Wanted) != `{"SchemaID":"x"}` || !slices.Equal(o.Requests, want) {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
		}
		if open, err := s.OpenOrders(t.Context()); err != nil || !slices.Equal(open, []string{first.RequestID}) {
			t.Errorf("%s: open are %v, %v", name, open, err)
		}
		storetest.Must(t, end(s, first, second))
		if open, err := s.OpenOrders(t.Context()); err != nil || len(open) > 0 {
			t.Errorf("%s: open are %v, %v", name, open, err)
		}
		if err := s.AddRequest(t.Context(), first.RequestID, storetest.Purchase("third")); !errors.Is(err, buyer.ErrConflict) {
			t.Errorf("%s: an order that has ended took a request: %v", name, err)
		}
	}
	k := storetest.Open(t)
	if _, err := k.Purchases().PlacedOrder(t.Context(), storetest.HexID("none")); !errors.Is(err, buyer.ErrNotFound) {
		t.Errorf("an order that nobody placed: %v", err)
	}
}

// TestOneRequestAtATime: no further provider is asked while a request is open, or
// after anything was paid.
func TestOneRequestAtATime(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	first, second := storetest.FillOrder(t, s, "order")
	third := storetest.Purchase("third")
	refuse := func(when string) {
		t.Helper()
		if err := s.AddRequest(t.Context(), first.RequestID, third); !errors.Is(err, buyer.ErrConflict) {
			t.Errorf("%s: %v", when, err)
		}
	}
	refuse("a request is open")
	storetest.Must(t, storetest.Reserve(t.Context(), s, second))
	refuse("a payment is under way")
	storetest.Must(t, s.Paid(t.Context(), second.RequestID, storetest.PaidFor(second)))
	refuse("a request is paid")
	storetest.Must(t, s.Close(t.Context(), second.RequestID, buyer.StateFailed, "paid, no result: internal"))
	refuse("a request that was paid has failed")
	if _, err := s.Purchase(t.Context(), third.RequestID); !errors.Is(err, buyer.ErrNotFound) {
		t.Errorf("the refused request was stored: %v", err)
	}
}
