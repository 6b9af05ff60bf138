package purchases

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
)

// SetRefund records what came back of a failed prepayment; the first stays.
func (s *Store) SetRefund(ctx context.Context, requestID string, msats int64) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, buyer.StateFailed, buyer.StateCanceled); err != nil {
			return err
		}
		if err := tx.isRefundOf(requestID); err != nil {
			return err
		}

		_, err := tx.Exec("INSERT INTO purchase_refunds(request_id, msats, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, msats, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record refund: %w", err)
		}
		return nil
	})
}

// isRefundOf refuses a refund that another purchase has recorded as its own: one
// payment came, whatever number of purchases named where it was to go.
func (tx *transaction) isRefundOf(requestID string) error {
	p, err := tx.purchase(requestID)
	if err != nil {
		return err
	}
	target := buyer.RefundTarget(p)
	if target == "" {
		return nil
	}
	rows, err := tx.Query(`SELECT p.request_id, p.request, h.tags FROM purchase_refunds r JOIN purchases p USING (request_id)
		LEFT JOIN purchase_hidden h USING (request_id) WHERE r.request_id <> ?`, requestID)
	if err != nil {
		return fmt.Errorf("look for refunds: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var other buyer.Purchase
		if err := rows.Scan(&other.RequestID, &other.Request, &other.Hidden); err != nil {
			return fmt.Errorf("look for refunds: %w", err)
		}
		if buyer.RefundTarget(other) == target {
			return fmt.Errorf("%w, %s", buyer.ErrRefundOfAnother, other.RequestID)
		}
	}

	return rows.Err()
}
