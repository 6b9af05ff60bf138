package storetest

import (
	"fmt"
	"testing"
)

// CheckTotals holds what is counted as it happens against what happened.
func CheckTotals(t testing.TB, k *DB) {
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
		if n := k.Count(t, query); n != 0 {
			t.Errorf("%s: %d sums do not follow", what, n)
		}
	}
}

// SoldAndBought is what a node sold and bought.
const SoldAndBought = `
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
