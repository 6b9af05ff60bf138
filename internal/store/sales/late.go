package sales

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/market/job"
)

// UnknownPayments lists the jobs that ended before their wallet said what came for
// them, oldest first.
func (s *Store) UnknownPayments(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		ids, err = tx.Strings(unknownPaymentIDs)
		return err
	})
	return ids, err
}

// AddLate records what came for a job that has ended without a receipt, as far as it
// is not a debt yet. tell runs inside the transaction: it
// must not use the store.
func (s *Store) AddLate(ctx context.Context, c job.Credit, tell func(msats int64) (job.OutEvent, error)) (msats int64, err error) {
	err = s.update(ctx, func(tx *transaction) error {
		if _, err := tx.jobIn(c.RequestID, job.StateFailed, job.StateCanceled, job.StateExpired); err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM unknown_payments WHERE request_id = ?", c.RequestID); err != nil {
			return fmt.Errorf("note that the wallet has answered: %w", err)
		}

		owed, err := tx.OwedFor(c.RequestID)
		if err != nil {
			return err
		}
		if msats = c.Msats - owed; msats <= 0 {
			msats = 0
			return nil
		}
		if err := tx.AddLate(c, owed == 0, msats); err != nil {
			return err
		}

		out, err := tell(msats)
		if err != nil {
			return err
		}
		return tx.EnqueueAll([]job.OutEvent{out})
	})
	if err != nil {
		return 0, err
	}
	return msats, nil
}
