package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
)

// TestHistory: what ended well and what was paid for nothing, of each provider;
// a job that failed before any money moved counts as neither, and what a provider
// signed that it owes in full is credit until its quotes are lowered by it.
func TestHistory(t *testing.T) {
	k := open(t)
	s := k.Purchases()
	const paid = 900
	for _, was := range []struct {
		name, provider           string
		ends                     buyer.State // "" stays open
		pays                     bool
		owed, used, back, second int64
		why                      string
	}{
		{name: "done", provider: "good", ends: buyer.StateDone, pays: true},
		{name: "failed", provider: "good", ends: buyer.StateFailed},
		{name: "lost", provider: "cheat", ends: buyer.StateFailed, pays: true},
		{name: "owes a part", provider: "cheat", ends: buyer.StateFailed, pays: true, owed: 300},
		{name: "owes for nothing", provider: "boaster", ends: buyer.StateFailed, owed: paid},
		{name: "open", provider: "boaster"},
		{name: "owes more than came", provider: "fair", ends: buyer.StateFailed, pays: true, owed: 10 * paid, second: 1},
		{name: "used", provider: "fair", ends: buyer.StateDone, pays: true, used: 250},
		{name: "used, and its again", provider: "fair", ends: buyer.StateFailed, used: 100},
		{name: "paid back", provider: "honest", ends: buyer.StateFailed, pays: true, owed: paid, back: paid},
		{name: "no answer", provider: "ghost", ends: buyer.StateFailed, why: "no_answer: silent"},
		{name: "a wrong quote", provider: "ghost", ends: buyer.StateFailed, why: "bad_offer: quote mismatch"},
		{name: "our own refusal", provider: "ghost", ends: buyer.StateFailed, why: "over_budget: the day budget"},
		{name: "our own cancel", provider: "ghost", ends: buyer.StateCanceled, why: "no_answer: no"},
		{name: "paid back a part", provider: "stingy", ends: buyer.StateFailed, pays: true, owed: paid, back: 800},
	} {
		p := testPurchase(was.name)
		p.Provider = hexID("%s", was.provider)
		must(t, s.AddPurchase(t.Context(), p))
		for _, said := range []struct {
			way   buyer.CreditWay
			msats int64
		}{{buyer.CreditOwed, was.owed}, {buyer.CreditOwed, was.second}, {buyer.CreditUsed, was.used}} {
			if said.msats > 0 {
				must(t, s.SetCredit(t.Context(), p.RequestID, said.way, said.msats))
			}
		}
		if was.pays {
			must(t, reserve(t.Context(), s, p))
			must(t, s.Paid(t.Context(), p.RequestID, paidFor(p)))
		}
		if was.ends != "" {
			must(t, s.Close(t.Context(), p.RequestID, was.ends, was.why))
		}
		if was.back > 0 {
			must(t, s.SetRefund(t.Context(), p.RequestID, was.back))
		}
	}
	got, err := s.History(t.Context())
	want := map[string]buyer.History{
		hexID("good"): {Done: 1}, hexID("cheat"): {Lost: 2, CreditMsats: 300}, hexID("boaster"): {},
		hexID("fair"): {Done: 1, CreditMsats: paid - 250}, hexID("honest"): {}, hexID("stingy"): {CreditMsats: 100}, hexID("ghost"): {Missed: 2},
	}
	ghost := got[hexID("ghost")]
	if ghost.MissedAt.IsZero() {
		t.Error("when it missed a request is not known")
	}
	ghost.MissedAt = time.Time{}
	got[hexID("ghost")] = ghost
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
