package purchases_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestHistory: what ended well and what was paid for nothing, of each provider;
// a job that failed before any money moved counts as neither, and what a provider
// signed that it owes in full is credit until its quotes are lowered by it.
func TestHistory(t *testing.T) {
	k := storetest.Open(t)
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
		p := storetest.Purchase(was.name)
		p.Provider = storetest.HexID("%s", was.provider)
		storetest.Must(t, s.AddPurchase(t.Context(), p))
		for _, said := range []struct {
			way   buyer.CreditWay
			msats int64
		}{{buyer.CreditOwed, was.owed}, {buyer.CreditOwed, was.second}, {buyer.CreditUsed, was.used}} {
			if said.msats > 0 {
				storetest.Must(t, s.SetCredit(t.Context(), p.RequestID, said.way, said.msats))
			}
		}
		if was.pays {
			storetest.Must(t, storetest.Reserve(t.Context(), s, p))
			storetest.Must(t, s.Paid(t.Context(), p.RequestID, storetest.PaidFor(p)))
		}
		if was.ends != "" {
			storetest.Must(t, s.Close(t.Context(), p.RequestID, was.ends, was.why))
		}
		if was.back > 0 {
			storetest.Must(t, s.SetRefund(t.Context(), p.RequestID, was.back))
		}
	}
	got, err := s.History(t.Context())
	want := map[string]buyer.History{
		storetest.HexID("good"): {Done: 1}, storetest.HexID("cheat"): {Lost: 2, CreditMsats: 300}, storetest.HexID("boaster"): {},
		storetest.HexID("fair"): {Done: 1, CreditMsats: paid - 250}, storetest.HexID("honest"): {}, storetest.HexID("stingy"): {CreditMsats: 100}, storetest.HexID("ghost"): {Missed: 2},
	}
	ghost := got[storetest.HexID("ghost")]
	if ghost.MissedAt.IsZero() {
		t.Error("when it missed a request is not known")
	}
	ghost.MissedAt = time.Time{}
	got[storetest.HexID("ghost")] = ghost
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestPaidAndSilent: who took the money and has sent nothing for hours took it for
// nothing, though nobody has said that the purchase failed. It did not once the result
// is here, if only in boxes; and it has longer where the money came on the chain.
func TestPaidAndSilent(t *testing.T) {
	k := storetest.Open(t)
	seller := storetest.HexID("seller")
	insert := func(query string, args ...any) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) error { _, err := tx.Exec(query, args...); return err })
	}
	for name, age := range map[string]time.Duration{"a": 3 * time.Hour, "b": time.Hour, "chain": 3 * time.Hour, "boxes": 3 * time.Hour} {
		insert(`INSERT INTO purchases(request_id, provider, schema_id, job_hash, request, max_msats, relays, added_ms) VALUES (?, ?, 's', zeroblob(32), x'00', 1000, '[]', 1)`, storetest.HexID("%s", name), seller)
		insert("INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (?, 'requested', '', 1)", storetest.HexID("%s", name))
		insert("INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (?, 'paid', '', ?)", storetest.HexID("%s", name), storetest.Start.Add(-age).UnixMilli())
	}
	insert(`INSERT INTO purchase_payments(request_id, purpose, payment_hash, state, amount_msats, fee_msats, failure_reason, at_ms, outpoints)
		VALUES (?, 'result', zeroblob(32), 'succeeded', 1, 0, '', 1, 'txid:0')`, storetest.HexID("chain"))
	insert("INSERT INTO purchase_sealed(request_id, event, at_ms) VALUES (?, x'00', 1)", storetest.HexID("boxes"))
	lost := func(want int) {
		t.Helper()
		all, err := k.Purchases().History(t.Context())
		storetest.Must(t, err)
		if all[seller].Lost != want {
			t.Errorf("%d purchases were paid for nothing, want %d", all[seller].Lost, want)
		}
	}
	lost(1)

	k.Now = storetest.Start.Add(90 * time.Minute)
	lost(3)
	k.Now = storetest.Start

	insert("INSERT INTO contents(digest, size, bytes) VALUES (zeroblob(32), 1, x'00')")
	insert("INSERT INTO purchase_results(request_id, event, output, early, at_ms) VALUES (?, x'00', zeroblob(32), 0, 1)", storetest.HexID("a"))
	lost(0)
}
