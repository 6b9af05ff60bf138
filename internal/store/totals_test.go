package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/market/job"
)

// checkTotals holds what is counted as it happens against what happened.
func checkTotals(t testing.TB, k *testStore) {
	t.Helper()
	both := func(x, y string) string {
		return fmt.Sprintf("SELECT count(*) FROM (SELECT * FROM (%[1]s EXCEPT %[2]s) UNION ALL SELECT * FROM (%[2]s EXCEPT %[1]s))", x, y)
	}
	for what, query := range map[string]string{
		"jobs that ended": both("SELECT succeeded, failed FROM job_record",
			"SELECT coalesce(sum(state = 'succeeded'), 0), coalesce(sum(state = 'failed'), 0) FROM job_history"),
		"what they took": both("SELECT timed, latency_ms FROM job_record",
			`SELECT count(took), coalesce(sum(took), 0) FROM (
				SELECT min(iif(state = 'delivering', at_ms, NULL)) - min(iif(state = 'running', at_ms, NULL)) AS took
				FROM job_history GROUP BY job HAVING sum(state = 'succeeded') > 0)`),
		"budgets": both("SELECT day, provider, reserved_msats, spent_msats FROM ledger_days",
			"SELECT day, provider, sum(reserved_msats), sum(spent_msats) FROM ledger GROUP BY day, provider"),
		"purchases that ended": both("SELECT done, failed, canceled FROM purchase_totals",
			`SELECT coalesce(sum(state = 'done'), 0), coalesce(sum(state = 'failed'), 0), coalesce(sum(state = 'canceled'), 0)
			FROM purchase_current`),
		"payments": both("SELECT paid_msats, fees_msats FROM purchase_totals",
			"SELECT coalesce(sum(amount_msats), 0), coalesce(sum(fee_msats), 0) FROM purchase_payments WHERE state = 'succeeded' AND purpose = 'result'"),
		"refunds": both("SELECT refunded_msats FROM purchase_totals", "SELECT coalesce(sum(msats), 0) FROM purchase_refunds"),
		"done, of each provider": both("SELECT provider, done FROM provider_done",
			"SELECT provider, count(*) FROM purchases JOIN purchase_current USING (request_id) WHERE state = 'done' GROUP BY provider"),
	} {
		if n := k.count(t, query); n != 0 {
			t.Errorf("%s: %d sums do not follow", what, n)
		}
	}
}

// soldAndBought is what a node sold and bought.
const soldAndBought = `
INSERT INTO requests(seq, request_id, buyer, at_ms) VALUES (1, :a, :buyer, 1), (2, :b, :buyer, 1), (3, :c, :buyer, 1), (4, :d, :buyer, 1);
INSERT INTO job_history(job, n, state, code, detail, at_ms) VALUES
	(1, 1, 'quoted', '', '', 1), (1, 2, 'running', '', '', 2), (1, 3, 'running', '', '', 4), (1, 4, 'delivering', '', '', 9), (1, 5, 'succeeded', '', '', 99),
	(2, 1, 'quoted', '', '', 1), (2, 2, 'running', '', '', 2), (2, 3, 'failed', '', '', 3),
	(3, 1, 'quoted', '', '', 1), (3, 2, 'succeeded', '', '', 5),
	(4, 1, 'quoted', '', '', 1), (4, 2, 'running', '', '', 2), (4, 3, 'delivering', '', '', 7);
INSERT INTO purchases(request_id, provider, schema_id, job_hash, request, max_msats, relays, added_ms)
SELECT request_id, :seller, 's', zeroblob(32), x'00', 1000, '[]', 1 FROM requests;
INSERT INTO purchase_states(request_id, state, reason, at_ms) SELECT request_id, 'requested', '', 1 FROM requests;
INSERT INTO ledger(day, request_id, provider, purpose, entry, reserved_msats, spent_msats, at_ms) VALUES
	('2026-03-01', :a, :seller, 'result', 'reserve', 1000, 0, 1), ('2026-03-01', :a, :seller, 'result', 'spend', -1000, 907, 1),
	('2026-03-01', :b, :seller, 'result', 'reserve', 1000, 0, 1), ('2026-03-01', :b, :seller, 'result', 'spend', -1000, 600, 1);
INSERT INTO purchase_payments(request_id, purpose, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms) VALUES
	(:a, 'result', zeroblob(32), 'succeeded', 900, 7, zeroblob(32), '', 1), (:b, 'result', zeroblob(32), 'succeeded', 600, 0, zeroblob(32), '', 1),
	(:c, 'result', zeroblob(32), 'failed', 500, 0, NULL, 'no route', 1);
INSERT INTO purchase_refunds(request_id, msats, at_ms) VALUES (:b, 400, 1);
INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (:a, 'done', '', 2), (:b, 'failed', '', 2), (:c, 'canceled', '', 2);`

// TestTotals: what was sold and bought counts, and what comes is added to it.
func TestTotals(t *testing.T) {
	seller, unfinished := hexID("seller"), hexID("d")
	var names []string
	for _, n := range []string{"a", "b", "c", "d", "buyer", "seller"} {
		names = append(names, ":"+n+",", "'"+hexID("%s", n)+"',")
	}
	k := open(t)
	k.update(t, func(tx *Tx) error {
		_, err := tx.Exec(strings.NewReplacer(names...).Replace(soldAndBought))
		return err
	})
	b, p := k.Purchases(), k.Sales("p")
	check := func(stats job.Stats, totals purchases.Totals, budget buyer.Budget, history buyer.History) {
		t.Helper()
		checkTotals(t, k)
		gotStats, err := p.Stats(t.Context())
		must(t, err)
		gotTotals, err := b.Totals(t.Context())
		must(t, err)
		gotBudget, err := b.BudgetOf(t.Context(), start)
		must(t, err)
		gotHistory, err := b.History(t.Context())
		must(t, err)
		if diff := cmp.Diff([]any{stats, totals, budget, history}, []any{gotStats, gotTotals, gotBudget, gotHistory[seller]}); diff != "" {
			t.Error(diff)
		}
	}
	totals := purchases.Totals{
		States:    map[buyer.State]int{buyer.StateDone: 1, buyer.StateFailed: 1, buyer.StateCanceled: 1, buyer.StateRequested: 1},
		PaidMsats: 1500, FeesMsats: 7, RefundedMsats: 400,
	}
	check(job.Stats{Succeeded: 2, Failed: 1, AvgLatencyMs: 7}, totals, buyer.Budget{Day: "2026-03-01", SpentMsats: 1507}, buyer.History{Done: 1})

	k.update(t, func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO job_history SELECT job, max(n) + 1, 'succeeded', '', '', ? FROM job_history WHERE job = 4", start.UnixMilli())
		return err
	})
	a := buyer.Attempt{PaymentHash: preimage("d").Hash(), Purpose: "result", AmountMsats: 500, FeeLimitMsats: 50, RuleID: "r", Wallet: "w", ReservedAt: start}
	must(t, b.Reserve(t.Context(), unfinished, buyer.Charge{Attempt: &a, BOLT11: "lnbc1"}, buyer.Limits{DayMsats: 1507 + 550, ProviderMsats: 1507 + 550}))
	delete(totals.States, buyer.StateRequested)
	totals.States[buyer.StatePaying], totals.ReservedMsats = 1, 500
	check(job.Stats{Succeeded: 3, Failed: 1, AvgLatencyMs: 6}, totals,
		buyer.Budget{Day: "2026-03-01", ReservedMsats: 550, SpentMsats: 1507}, buyer.History{Done: 1})

	paid := paidFor(buyer.Purchase{})
	paid.Hash, paid.Preimage, paid.AmountMsats = a.PaymentHash, preimage("d"), 500
	must(t, b.Paid(t.Context(), unfinished, paid))
	must(t, b.Close(t.Context(), unfinished, buyer.StateDone, ""))
	delete(totals.States, buyer.StatePaying)
	totals.States[buyer.StateDone], totals.ReservedMsats, totals.PaidMsats, totals.FeesMsats = 2, 0, 2000, 14
	check(job.Stats{Succeeded: 3, Failed: 1, AvgLatencyMs: 6}, totals,
		buyer.Budget{Day: "2026-03-01", SpentMsats: 1507 + 507}, buyer.History{Done: 2})
}

// TestFindJob: by the beginning of an id or of a receipt's, and only if that is
// one's alone.
func TestFindJob(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	var jobs []job.Job
	for i := range 3 {
		j := testJob(fmt.Sprint(i), "hold")
		j.RequestID = "abcdef" + j.RequestID[6:]
		toState(t, s, j, job.StateSucceeded)
		jobs = append(jobs, j)
	}
	id := jobs[1].RequestID
	for prefix, want := range map[string]error{
		id: nil, id[:12]: nil, "rcpt_" + id: nil, "rcpt_" + id[:12]: nil, "abcdef": names.ErrAmbiguous, "rcpt_abcdef": names.ErrAmbiguous,
		"abcde": job.ErrNotFound, "": job.ErrNotFound, "rcpt_": job.ErrNotFound, "rcpt_123456": job.ErrNotFound,
		"ABCDEF": job.ErrNotFound, "abcdef%": job.ErrNotFound, id + "0": job.ErrNotFound,
	} {
		j, err := s.FindJob(t.Context(), prefix)
		if !errors.Is(err, want) || err == nil && j.RequestID != id {
			t.Errorf("FindJob(%q) = %s, %v, want %v", prefix, j.RequestID, err, want)
		}
	}
}

// TestTraceByAHash: a job hash is found as it is written, and by its digits alone;
// those who sell have it in another table than those who buy.
func TestTraceByAHash(t *testing.T) {
	k := open(t)
	sold := testJob("sold", "hold")
	sold.JobHash = digest("what is sold")
	toState(t, k.Sales("p"), sold, job.StateQuoted)
	toState(t, k.Sales("p"), testJob("other", "hold"), job.StateQuoted)
	bought := digest("what is bought")
	k.update(t, func(tx *Tx) error { return tx.Correlate(hexID("bought"), journal.NameJobHash, bought.String()) })
	for name, want := range map[string][]string{
		sold.JobHash.String(): {sold.RequestID}, sold.JobHash.Hex(): {sold.RequestID}, sold.JobHash.Hex()[:12]: {sold.RequestID},
		bought.Hex()[:12]: {hexID("bought")}, digest("none").Hex()[:12]: nil, sold.JobHash.Hex()[1:13]: nil,
	} {
		found, err := k.Trace(t.Context(), name)
		must(t, err)
		var ids []string
		for _, f := range found {
			ids = append(ids, f.RequestID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", name, ids, want)
		}
	}
}

// Each of these is asked for by people and by jobs, however many there are.
func TestQueriesLookAtNoOther(t *testing.T) {
	k := open(t)
	// These have one row, a row for each provider, or are of what is open, on its way, failed, given
	// up, or had a credit; what is found of job_names, and of refunds, is gone through again.
	small := []string{
		"SCAN job_record", "SCAN purchase_totals", "SCAN provider_done", "SCAN o", "SCAN s USING INDEX purchase_states_undone", "SCAN u",
		"SCAN purchase_states USING INDEX purchase_states_given_up",
		"SCAN job_names", "SCAN (subquery-6)", "SCAN open_refunds", "SCAN r",
	}
	for _, q := range []struct {
		query   string
		args    int
		ordered bool // it ends after a few rows of a table in its order
	}{
		{"SELECT sequence, receipt_hash FROM receipt_tip", 0, true},
		{namedBy, 3, false},
	} {
		for _, step := range k.plan(t, q.query, []any{1, 2, 3}[:q.args]...) {
			scan := strings.HasPrefix(step, "SCAN ") && !slices.Contains(small, step)
			if scan && !q.ordered || strings.Contains(step, "TEMP B-TREE") && q.ordered {
				t.Errorf("%.60s: %s", q.query, step)
			}
		}
	}
}

// TestPaidAndSilent: who took the money and has sent nothing for hours took it for
// nothing, though nobody has said that the purchase failed. It did not once the result
// is here, if only in boxes; and it has longer where the money came on the chain.
func TestPaidAndSilent(t *testing.T) {
	k := open(t)
	seller := hexID("seller")
	insert := func(query string, args ...any) {
		t.Helper()
		k.update(t, func(tx *Tx) error { _, err := tx.Exec(query, args...); return err })
	}
	for name, age := range map[string]time.Duration{"a": 3 * time.Hour, "b": time.Hour, "chain": 3 * time.Hour, "boxes": 3 * time.Hour} {
		insert(`INSERT INTO purchases(request_id, provider, schema_id, job_hash, request, max_msats, relays, added_ms) VALUES (?, ?, 's', zeroblob(32), x'00', 1000, '[]', 1)`, hexID("%s", name), seller)
		insert("INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (?, 'requested', '', 1)", hexID("%s", name))
		insert("INSERT INTO purchase_states(request_id, state, reason, at_ms) VALUES (?, 'paid', '', ?)", hexID("%s", name), start.Add(-age).UnixMilli())
	}
	insert(`INSERT INTO purchase_payments(request_id, purpose, payment_hash, state, amount_msats, fee_msats, failure_reason, at_ms, outpoints)
		VALUES (?, 'result', zeroblob(32), 'succeeded', 1, 0, '', 1, 'txid:0')`, hexID("chain"))
	insert("INSERT INTO purchase_sealed(request_id, event, at_ms) VALUES (?, x'00', 1)", hexID("boxes"))
	lost := func(want int) {
		t.Helper()
		all, err := k.Purchases().History(t.Context())
		must(t, err)
		if all[seller].Lost != want {
			t.Errorf("%d purchases were paid for nothing, want %d", all[seller].Lost, want)
		}
	}
	lost(1)

	k.now = start.Add(90 * time.Minute)
	lost(3)
	k.now = start

	insert("INSERT INTO contents(digest, bytes) VALUES (zeroblob(32), x'00')")
	insert("INSERT INTO purchase_results(request_id, event, output, early, at_ms) VALUES (?, x'00', zeroblob(32), 0, 1)", hexID("a"))
	lost(0)
}
