package store

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/market/job"
)

// UnknownPayments lists the jobs that ended before their wallet said what came for
// them, oldest first.
func (s *ProviderStore) UnknownPayments(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		ids, err = tx.Strings(unknownPaymentIDs)
		return err
	})
	return ids, err
}

// AddLate records what came for a job that has ended without a receipt, as far as it
// is not a debt yet. tell runs inside the transaction: it
// must not use the store.
func (s *ProviderStore) AddLate(ctx context.Context, c job.Credit, tell func(msats int64) (job.OutEvent, error)) (msats int64, err error) {
	err = s.update(ctx, func(tx *Tx) error {
		j, err := tx.jobIn(c.RequestID, job.StateFailed, job.StateCanceled, job.StateExpired)
		if err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM unknown_payments WHERE request_id = ?", c.RequestID); err != nil {
			return fmt.Errorf("note that the wallet has answered: %w", err)
		}

		var owed int64
		err = tx.QueryRow(`SELECT coalesce((SELECT msats FROM credits WHERE request_id = ?1), 0) +
			coalesce((SELECT sum(msats) FROM late_credits WHERE request_id = ?1), 0)`, c.RequestID).Scan(&owed)
		if err != nil {
			return fmt.Errorf("sum what is owed: %w", err)
		}
		if msats = c.Msats - owed; msats <= 0 {
			msats = 0
			return nil
		}
		if err := tx.addLate(j, c, owed == 0, msats); err != nil {
			return err
		}

		out, err := tell(msats)
		if err != nil {
			return err
		}
		return tx.enqueueAll([]job.OutEvent{out})
	})
	if err != nil {
		return 0, err
	}
	return msats, nil
}

func (tx *Tx) addLate(j jobRow, c job.Credit, first bool, msats int64) error {
	if first {
		c.Msats = msats
		return tx.addCredit(j, &c)
	}
	_, err := tx.Exec("INSERT INTO late_credits(request_id, buyer, msats, at_ms) VALUES (?, ?, ?, ?)",
		c.RequestID, c.Buyer, msats, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record late money: %w", err)
	}
	return nil
}
