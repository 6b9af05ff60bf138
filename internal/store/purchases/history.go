package purchases

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// missed is true of a request that its provider left unanswered, or answered with an
// offer that was not the announced one, since a time.
const missed = `(s.state = 'failed' AND s.at_ms >= ?1 AND (s.reason LIKE '` + buyer.CodeNoAnswer + `:%' OR s.reason LIKE '` + buyer.CodeBadOffer + `:%'))`

// missedFor is how long that counts.
const missedFor = 24 * time.Hour

// overdue is how long after its payment a job without a result counts as paid for
// nothing: twice as long as any may run. It does so no more once the result is here,
// if only in boxes, which the payment opens.
const overdue = 2 * time.Hour

// overdueOnChain is the same of a payment on the chain. It is ours after as many
// confirmations as we want; the provider may want more of them before it begins, and
// has two hours for these.
const overdueOnChain = overdue + 2*time.Hour

// history has what is done as it was counted, and reads of all other purchases
// those that failed, are open though they were paid for long ago, or used a credit.
const history = `
	SELECT provider, sum(done), sum(lost), sum(owed), sum(used), sum(missed), max(missed_ms) FROM (
		SELECT provider, done, 0 AS lost, 0 AS owed, 0 AS used, 0 AS missed, 0 AS missed_ms FROM provider_done
		UNION ALL
		SELECT p.provider, 0,
			s.state = 'failed' AND m.request_id IS NOT NULL AND f.request_id IS NULL AND coalesce(o.msats, 0) < m.amount_msats,
			max(0, min(coalesce(o.msats, 0), coalesce(m.amount_msats, 0) + coalesce(e.amount_msats, 0)) - coalesce(f.msats, 0)), 0,
			` + missed + `, iif(` + missed + `, s.at_ms, 0)
		FROM purchase_states s JOIN purchases p ON p.request_id = s.request_id
			LEFT JOIN purchase_payments m ON m.request_id = s.request_id AND m.purpose = 'result' AND m.state = 'succeeded'
			LEFT JOIN purchase_payments e ON e.request_id = s.request_id AND e.purpose = 'engagement' AND e.state = 'succeeded'
			LEFT JOIN purchase_refunds f ON f.request_id = s.request_id
			LEFT JOIN purchase_credits o ON o.request_id = s.request_id AND o.way = 'owed'
		WHERE s.state IN ('failed', 'canceled')
		UNION ALL
		SELECT p.provider, 0, 1, 0, 0, 0, 0
		FROM open_purchases o CROSS JOIN purchase_states s ON s.request_id = o.request_id AND s.state = 'paid'
			JOIN purchases p ON p.request_id = o.request_id
			LEFT JOIN purchase_payments m ON m.request_id = o.request_id AND m.purpose = 'result'
		WHERE s.at_ms < iif(coalesce(m.outpoints, '') = '', ?2, ?3)
			AND NOT EXISTS (SELECT 1 FROM purchase_results r WHERE r.request_id = o.request_id)
			AND NOT EXISTS (SELECT 1 FROM purchase_sealed b WHERE b.request_id = o.request_id)
		UNION ALL
		SELECT p.provider, 0, 0, 0, u.msats, 0, 0
		FROM purchase_credits u JOIN purchase_current c USING (request_id) JOIN purchases p USING (request_id)
			JOIN purchase_payments m ON m.request_id = u.request_id AND m.purpose = 'result' AND m.state = 'succeeded'
		WHERE u.way = 'used' AND c.state NOT IN ('failed', 'canceled')
	) GROUP BY provider`

// History counts, for each provider, the purchases that ended well and those
// that were paid for nothing and did not come back. What a provider signed that it
// owes in full is no loss, but credit, less what its later quotes were lowered by.
func (s *Store) History(ctx context.Context) (map[string]buyer.History, error) {
	all := map[string]buyer.History{}
	err := s.view(ctx, func(tx *transaction) error {
		rows, err := tx.Query(history, tx.Now().Add(-missedFor).UnixMilli(), tx.Now().Add(-overdue).UnixMilli(), tx.Now().Add(-overdueOnChain).UnixMilli())
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		defer rows.Close()

		for rows.Next() {
			var provider string
			var h buyer.History
			var owed, used, missedMs int64
			if err := rows.Scan(&provider, &h.Done, &h.Lost, &owed, &used, &h.Missed, &missedMs); err != nil {
				return fmt.Errorf("read history: %w", err)
			}
			if h.Missed > 0 {
				h.MissedAt = row.FromMs(missedMs)
			}
			h.CreditMsats = max(0, owed-used)
			all[provider] = h
		}

		return rows.Err()
	})
	return all, err
}

// SetCredit keeps what a provider said of its credit; its first word stays.
func (s *Store) SetCredit(ctx context.Context, requestID string, way buyer.CreditWay, msats int64) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO purchase_credits(request_id, way, msats, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, string(way), msats, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record credit: %w", err)
		}
		return nil
	})
}
