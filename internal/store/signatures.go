package store

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

// SetSignature records the signature of an event that was queued without one;
// the first stays. ErrNotFound if it was never queued.
func (s *ProviderStore) SetSignature(ctx context.Context, eventID, sig string) error {
	return s.update(ctx, func(tx *Tx) error {
		var known int
		if err := tx.QueryRow("SELECT 1 FROM outbox WHERE event_id = ?", eventID).Scan(&known); err != nil {
			return row.NotFound(err, "queued event "+eventID)
		}
		_, err := tx.Exec("INSERT INTO event_signatures(event_id, sig, signed_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			eventID, sig, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record signature: %w", err)
		}
		return nil
	})
}
