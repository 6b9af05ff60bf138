package purchases_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestPanelIsReadBack: a panel after every step, from a database that was closed
// and opened.
func TestPanelIsReadBack(t *testing.T) {
	k := storetest.Open(t)
	want := storetest.FillPanel(t, k.Purchases())
	k.Reopen(t)
	s := k.Purchases()
	d, hash := storetest.Agreed(), storetest.Digest("agreement")
	d.At = storetest.Start
	want.Closing, want.Decision = []byte("closing"), &d
	for i := range want.Members {
		want.Members[i].Ruling = &panel.Ruling{Taken: i < 2, Why: "2 of 3 agree"}
		if i < 2 {
			want.Members[i].Revealed = &hash
		}
	}
	want.Members[2].Ruling.Why = "it did not reveal"
	got, err := s.Panel(t.Context(), want.ID)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if list, err := s.Panels(t.Context(), 0); err != nil || len(list) != 1 {
		t.Errorf("%d panels, %v", len(list), err)
	}
	dropped, err := s.Purchase(t.Context(), want.Members[2].RequestID)
	if err != nil || dropped.State != buyer.StateFailed || dropped.Reason != "not paid: it did not reveal" || string(dropped.Cancel) != "cancel" {
		t.Errorf("the dropped seat is %s (%s), %v", dropped.State, dropped.Reason, err)
	}
	storetest.CheckBudget(t, s, storetest.Start, 2_000, 0)
	wantMember := buyer.Membership{Panel: want.ID, Revealed: &hash}
	if m, err := s.Purchase(t.Context(), want.Members[1].RequestID); err != nil || m.Member == nil || cmp.Diff(wantMember, *m.Member) != "" {
		t.Errorf("the member's purchase says %+v, %v", m.Member, err)
	}
	if open, err := s.OpenPanels(t.Context()); err != nil || len(open) != 1 {
		t.Errorf("open panels %v, %v", open, err)
	}
	for _, seat := range want.Members[:2] {
		p, err := s.Purchase(t.Context(), seat.RequestID)
		storetest.Must(t, err)
		storetest.Must(t, s.Paid(t.Context(), seat.RequestID, storetest.PaidFor(p)))
		storetest.Must(t, s.Close(t.Context(), seat.RequestID, buyer.StateDone, ""))
	}
	if open, err := s.OpenPanels(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open panels %v, %v", open, err)
	}
}

// TestPanelStepsInOrder: no step before its time, and none after the decision.
func TestPanelStepsInOrder(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	p, seats := storetest.Panel("x")
	storetest.Must(t, s.AddPanel(t.Context(), p, seats))
	before := k.Dump(t)
	if err := s.SetReveal(t.Context(), seats[0].RequestID, hashing.Bytes(nil), []byte("reveal")); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("a reveal before the commits are closed: %v", err)
	}
	if err := storetest.Reserve(t.Context(), s, seats[0]); !sqlite.IsConstraint(err) {
		t.Errorf("a seat is paid before its panel has decided: %v", err)
	}
	var seat *panel.MemberError
	var over *buyer.BudgetError
	pay := []buyer.Award{storetest.AwardOf(seats[0]), storetest.AwardOf(seats[1])}
	drop := []panel.Drop{{RequestID: seats[2].RequestID, Why: "why", Cancel: []byte("cancel")}}
	err := s.Decide(t.Context(), p.ID, storetest.Agreed(), pay, drop, buyer.Limits{DayMsats: 1_999})
	if !errors.As(err, &seat) || !errors.As(err, &over) || seat.RequestID != seats[1].RequestID || over.FreeMsats != 999 {
		t.Errorf("decided above the day's budget: %v", err)
	}
	same := []buyer.Award{storetest.AwardOf(seats[0]), storetest.AwardOf(seats[1])}
	same[1].Attempt.PaymentHash = same[0].Attempt.PaymentHash
	if err := s.Decide(t.Context(), p.ID, storetest.Agreed(), same, drop, buyer.Limits{}); !errors.As(err, &seat) || !errors.Is(err, buyer.ErrSecondPayment) {
		t.Errorf("two seats with one payment hash: %v", err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("refused steps left:\n%s", diff)
	}
	storetest.Must(t, s.Decide(t.Context(), p.ID, storetest.Agreed(), pay, drop, buyer.Limits{DayMsats: 2_000}))
	decided := k.Dump(t)
	for name, err := range map[string]error{
		"decision": s.Decide(t.Context(), p.ID, storetest.Agreed(), nil, nil, buyer.Limits{}),
		"closing":  s.SetClosing(t.Context(), p.ID, []byte("closing")),
		"reveal":   s.SetReveal(t.Context(), seats[0].RequestID, hashing.Bytes(nil), []byte("reveal")),
	} {
		if !errors.Is(err, buyer.ErrConflict) {
			t.Errorf("%s after the decision: %v", name, err)
		}
	}
	if diff := cmp.Diff(decided, k.Dump(t)); diff != "" {
		t.Errorf("refused steps left:\n%s", diff)
	}
}

// TestPanelIsAddedWhole: a panel with one seat that cannot be stored leaves nothing.
func TestPanelIsAddedWhole(t *testing.T) {
	k := storetest.Open(t)
	p, seats := storetest.Panel("x")
	storetest.Must(t, k.Purchases().AddPurchase(t.Context(), seats[2]))
	before := k.Dump(t)
	if err := k.Purchases().AddPanel(t.Context(), p, seats); !errors.Is(err, buyer.ErrDuplicate) {
		t.Errorf("a known request is a seat: %v", err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("it left:\n%s", diff)
	}
}
