package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
)

// testPanel has three seats, each with a provider and an invoice of its own.
func testPanel(name string) (panel.Panel, []buyer.Purchase) {
	p := panel.Panel{
		ID: "panel_" + name, SchemaID: "oa.sandbox_run.v1", JobHash: digest("job"), Rule: panel.RuleMajority,
		MaxMsats: 3_000, Deadline: start.Add(time.Minute), AddedAt: start,
	}
	var seats []buyer.Purchase
	for _, n := range []string{"a", "b", "c"} {
		seat := testPurchase(name + n)
		seat.Provider = hexID("provider %s", n)
		seats = append(seats, seat)
		p.Members = append(p.Members, panel.Member{RequestID: seat.RequestID, Provider: seat.Provider})
	}
	return p, seats
}

func awardOf(p buyer.Purchase) buyer.Award {
	a := attemptOf(p)
	return buyer.Award{
		RequestID: p.RequestID, Charge: buyer.Charge{
			Attempt: &a, Quote: []byte("quote"), BOLT11: "lnbc" + a.PaymentHash.String(), Acceptance: []byte("acceptance"),
		},
	}
}

func agreed() panel.Decision {
	hash := digest("agreement")
	return panel.Decision{
		Outcome: panel.OutcomeAgreed, Agreement: &hash, Reason: "2 of 3 agree", Record: []byte(`{"ballots":[]}`), Output: []byte("merged"),
	}
}

// fillPanel takes a panel through every step.
func fillPanel(t testing.TB, s *purchases.Store) panel.Panel {
	t.Helper()
	p, seats := testPanel("filled")
	must(t, s.AddPanel(t.Context(), p, seats))
	must(t, s.SetClosing(t.Context(), p.ID, []byte("closing")))
	for i := range 2 {
		must(t, s.SetReveal(t.Context(), seats[i].RequestID, digest("agreement"), []byte("reveal")))
	}
	must(t, s.Decide(t.Context(), p.ID, agreed(), []buyer.Award{awardOf(seats[0]), awardOf(seats[1])},
		[]panel.Drop{{RequestID: seats[2].RequestID, Why: "it did not reveal", Cancel: []byte("cancel")}}, buyer.Limits{}))
	return p
}

// TestPanelIsReadBack: a panel after every step, from a database that was closed
// and opened.
func TestPanelIsReadBack(t *testing.T) {
	k := open(t)
	want := fillPanel(t, k.Purchases())
	k.reopen(t)
	s := k.Purchases()
	d, hash := agreed(), digest("agreement")
	d.At = start
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
	checkBudget(t, s, start, 2_000, 0)
	wantMember := buyer.Membership{Panel: want.ID, Revealed: &hash}
	if m, err := s.Purchase(t.Context(), want.Members[1].RequestID); err != nil || m.Member == nil || cmp.Diff(wantMember, *m.Member) != "" {
		t.Errorf("the member's purchase says %+v, %v", m.Member, err)
	}
	if open, err := s.OpenPanels(t.Context()); err != nil || len(open) != 1 {
		t.Errorf("open panels %v, %v", open, err)
	}
	for _, seat := range want.Members[:2] {
		p, err := s.Purchase(t.Context(), seat.RequestID)
		must(t, err)
		must(t, s.Paid(t.Context(), seat.RequestID, paidFor(p)))
		must(t, s.Close(t.Context(), seat.RequestID, buyer.StateDone, ""))
	}
	if open, err := s.OpenPanels(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open panels %v, %v", open, err)
	}
}

// TestPanelStepsInOrder: no step before its time, and none after the decision.
func TestPanelStepsInOrder(t *testing.T) {
	k := open(t)
	s := k.Purchases()
	p, seats := testPanel("x")
	must(t, s.AddPanel(t.Context(), p, seats))
	before := k.dump(t)
	if err := s.SetReveal(t.Context(), seats[0].RequestID, hashing.Bytes(nil), []byte("reveal")); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("a reveal before the commits are closed: %v", err)
	}
	if err := reserve(t.Context(), s, seats[0]); !sqlite.IsConstraint(err) {
		t.Errorf("a seat is paid before its panel has decided: %v", err)
	}
	var seat *panel.MemberError
	var over *buyer.BudgetError
	pay := []buyer.Award{awardOf(seats[0]), awardOf(seats[1])}
	drop := []panel.Drop{{RequestID: seats[2].RequestID, Why: "why", Cancel: []byte("cancel")}}
	err := s.Decide(t.Context(), p.ID, agreed(), pay, drop, buyer.Limits{DayMsats: 1_999})
	if !errors.As(err, &seat) || !errors.As(err, &over) || seat.RequestID != seats[1].RequestID || over.FreeMsats != 999 {
		t.Errorf("decided above the day's budget: %v", err)
	}
	same := []buyer.Award{awardOf(seats[0]), awardOf(seats[1])}
	same[1].Attempt.PaymentHash = same[0].Attempt.PaymentHash
	if err := s.Decide(t.Context(), p.ID, agreed(), same, drop, buyer.Limits{}); !errors.As(err, &seat) || !errors.Is(err, buyer.ErrSecondPayment) {
		t.Errorf("two seats with one payment hash: %v", err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("refused steps left:\n%s", diff)
	}
	must(t, s.Decide(t.Context(), p.ID, agreed(), pay, drop, buyer.Limits{DayMsats: 2_000}))
	decided := k.dump(t)
	for name, err := range map[string]error{
		"decision": s.Decide(t.Context(), p.ID, agreed(), nil, nil, buyer.Limits{}),
		"closing":  s.SetClosing(t.Context(), p.ID, []byte("closing")),
		"reveal":   s.SetReveal(t.Context(), seats[0].RequestID, hashing.Bytes(nil), []byte("reveal")),
	} {
		if !errors.Is(err, buyer.ErrConflict) {
			t.Errorf("%s after the decision: %v", name, err)
		}
	}
	if diff := cmp.Diff(decided, k.dump(t)); diff != "" {
		t.Errorf("refused steps left:\n%s", diff)
	}
}

// TestPanelIsAddedWhole: a panel with one seat that cannot be stored leaves nothing.
func TestPanelIsAddedWhole(t *testing.T) {
	k := open(t)
	p, seats := testPanel("x")
	must(t, k.Purchases().AddPurchase(t.Context(), seats[2]))
	before := k.dump(t)
	if err := k.Purchases().AddPanel(t.Context(), p, seats); !errors.Is(err, buyer.ErrDuplicate) {
		t.Errorf("a known request is a seat: %v", err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Errorf("it left:\n%s", diff)
	}
}
