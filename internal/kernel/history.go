package kernel

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
)

// History counts, for each provider, the purchases that ended well and those
// that were paid for nothing and did not come back.
func (s *BuyerStore) History(ctx context.Context) (map[string]buyer.History, error) {
	all := map[string]buyer.History{}
	err := s.view(ctx, func(tx *Tx) error {
		rows, err := tx.Query(`SELECT p.provider, sum(c.state = 'done'), sum(c.state = 'failed' AND coalesce(m.state = 'succeeded', 0) AND f.request_id IS NULL)
			FROM purchases p JOIN purchase_current c ON c.request_id = p.request_id
				LEFT JOIN purchase_payments m ON m.request_id = p.request_id
				LEFT JOIN purchase_refunds f ON f.request_id = p.request_id
			GROUP BY p.provider`)
		if err != nil {
			return fmt.Errorf("read history: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var provider string
			var h buyer.History
			if err := rows.Scan(&provider, &h.Done, &h.Lost); err != nil {
				return fmt.Errorf("read history: %w", err)
			}
			all[provider] = h
		}
		return rows.Err()
	})
	return all, err
}
