package money

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// attemptsMax bounds how often one debt is tried to be paid.
const attemptsMax = 100

const attemptColumns = `request_id, attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats,
	state, fee_msats, unused_msats, preimage, outpoints, reason, end_ms`

const (
	openRefundIDs  = "SELECT request_id FROM open_refunds ORDER BY at_ms, request_id"
	attemptsOfDebt = "SELECT " + attemptColumns + " FROM refund_attempts WHERE request_id = ? ORDER BY attempt"
)

// OpenRefunds lists refunds whose outcome is not known, oldest first.
func (s Refunds) OpenRefunds(ctx context.Context) (list []job.Refund, err error) {
	err = s.view(ctx, func(tx Debts) error {
		ids, err := tx.Strings(openRefundIDs)
		if err != nil {
			return err
		}

		for _, id := range ids {
			all, err := tx.attempts(id)
			if err != nil {
				return err
			}
			list = append(list, all[len(all)-1]) // only the last may be open
		}
		return nil
	})
	return list, err
}

// attempts are all attempts to pay the debt of a job, the first first.
func (tx Debts) attempts(requestID string) (list []job.Refund, err error) {
	rows, err := tx.Query(attemptsOfDebt, requestID)
	if err != nil {
		return nil, fmt.Errorf("read refunds: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var r job.Refund
		end := job.RefundEnd{}
		var state, outpoints, reason sql.NullString
		var fee, unused, at sql.NullInt64
		err := rows.Scan(&r.RequestID, &r.Attempt, &r.Buyer, &r.BOLT11, row.Into(&r.PaymentHash), &r.Msats, &r.FeeLimitMsats,
			&state, &fee, &unused, row.Into(&end.Preimage), &outpoints, &reason, &at)
		if err != nil {
			return nil, fmt.Errorf("read refunds: %w", err)
		}
		if state.Valid {
			end.Attempt, end.State, end.FeeMsats = r.Attempt, payments.PaymentState(state.String), fee.Int64
			end.UnusedMsats, end.Outpoints = unused.Int64, outpoints.String
			end.Reason, end.At = reason.String, row.FromNullMs(at)
			r.End = &end
		}

		list = append(list, r)
	}

	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read refunds: %w", err)
	}

	for i := range list {
		if list[i].Wallet, err = Payer(tx.Tx, list[i].PaymentHash); err != nil {
			return nil, err
		}
		var at sql.NullInt64
		err := tx.QueryRow("SELECT count(*), min(at_ms) FROM sent_refunds WHERE request_id = ? AND attempt = ?", requestID, list[i].Attempt).Scan(&list[i].Sent, &at)
		list[i].SentAt = row.FromNullMs(at)
		if err != nil {
			return nil, fmt.Errorf("read how often a refund was sent: %w", err)
		}
	}

	return list, nil
}

// SetRefundSent records that the wallet is about to be told to send an attempt.
func (s Refunds) SetRefundSent(ctx context.Context, requestID string, attempt int) error {
	return s.update(ctx, func(tx Debts) error {
		list, err := tx.attempts(requestID)
		switch {
		case err != nil:
			return err
		case attempt < 1 || attempt > len(list):
			return fmt.Errorf("refund of %s, attempt %d: %w", requestID, attempt, row.ErrNotFound)
		case list[attempt-1].End != nil:
			return fmt.Errorf("refund of %s, attempt %d, has ended: %w", requestID, attempt, job.ErrConflict)
		}

		_, err = tx.Exec("INSERT INTO sent_refunds(request_id, attempt, at_ms) VALUES (?, ?, ?)", requestID, attempt, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record that the refund is sent: %w", err)
		}
		return nil
	})
}

// EndRefund records how an attempt ended. A success must be proved.
func (s Refunds) EndRefund(ctx context.Context, requestID string, end job.RefundEnd, out ...job.OutEvent) error {
	return s.update(ctx, func(tx Debts) error {
		list, err := tx.attempts(requestID)
		switch {
		case err != nil:
			return err
		case end.Attempt < 1 || end.Attempt > len(list):
			return fmt.Errorf("refund of %s, attempt %d: %w", requestID, end.Attempt, row.ErrNotFound)
		}

		r := list[end.Attempt-1]
		switch {
		case r.End != nil && r.End.State == end.State && r.End.Preimage == end.Preimage && r.End.Outpoints == end.Outpoints:
			return nil
		case r.End != nil, !end.State.Terminal(), end.State == payments.PaymentSucceeded && !shown(r, end):
			return fmt.Errorf("refund of %s cannot end as %s: %w", requestID, end.State, job.ErrConflict)
		}

		_, err = tx.Exec(`INSERT INTO refund_outcomes(request_id, attempt, buyer, state, fee_msats, unused_msats, preimage, outpoints, reason, at_ms)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, requestID, end.Attempt, r.Buyer, string(end.State), end.FeeMsats, end.UnusedMsats,
			row.Blob(end.Preimage), end.Outpoints, end.Reason, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record end of refund: %w", err)
		}
		return outbox.Outbox{Tx: tx.Tx}.EnqueueAll(out)
	})
}

// shown reports whether a success is: by the invoice's preimage, or on the chain
// by the output, which is not more than what was taken from the credit.
func shown(r job.Refund, end job.RefundEnd) bool {
	if end.Outpoints != "" {
		return end.Preimage.IsZero() && end.UnusedMsats >= 0 && end.UnusedMsats < r.Msats
	}
	return end.Preimage.Hash() == r.PaymentHash && end.UnusedMsats == 0
}

// RetryRefund records a further attempt to pay a debt, the first where there was
// none.
func (s Refunds) RetryRefund(ctx context.Context, r job.Refund) (attempt int, err error) {
	err = s.update(ctx, func(tx Debts) error {
		before, err := tx.unsettled(r.RequestID, r.Msats)
		if err != nil {
			return err
		}
		if free, err := tx.creditOf(r.Buyer); err != nil || r.Msats > free {
			return errors.Join(err, fmt.Errorf("%d msats are left of what is owed to the buyer: %w", free, job.ErrCreditSpent))
		}

		var taken int
		err = tx.QueryRow("SELECT count(*) FROM refund_attempts WHERE payment_hash = ? AND (request_id <> ? OR state = 'succeeded')", r.PaymentHash[:], r.RequestID).Scan(&taken)
		if err != nil || taken > 0 {
			return errors.Join(err, fmt.Errorf("refund of %s: %w", r.RequestID, job.ErrRefundTaken))
		}
		attempt = len(before) + 1
		if attempt == 1 {
			return tx.AddRefund(&job.Credit{RequestID: r.RequestID, Buyer: r.Buyer, Refund: &r})
		}
		_, err = tx.Exec("INSERT INTO refund_retries(request_id, attempt, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			r.RequestID, attempt, r.Buyer, r.BOLT11, r.PaymentHash[:], r.Msats, r.FeeLimitMsats, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record refund: %w", err)
		}
		return SetPayer(tx.Tx, r.PaymentHash, r.Wallet)
	})
	return attempt, err
}

// unsettled returns the attempts to pay a debt that still stands: none is on its
// way, those that succeeded left something, and it was not written off. After a
// success no more than what is left of this debt may be settled.
func (tx Debts) unsettled(requestID string, msats int64) ([]job.Refund, error) {
	var known int
	d := job.Debt{}
	err := tx.QueryRow(`SELECT count(*), coalesce(sum(msats), 0) + coalesce((SELECT sum(msats) FROM late_credits WHERE request_id = ?1), 0)
		FROM credits WHERE request_id = ?1`, requestID).Scan(&known, &d.Msats)
	if err != nil {
		return nil, fmt.Errorf("read debt: %w", err)
	}
	if known == 0 {
		return nil, fmt.Errorf("debt of %s: %w", requestID, row.ErrNotFound)
	}

	w, err := tx.writeOff(requestID)
	switch {
	case err != nil:
		return nil, err
	case w != nil:
		return nil, job.ErrDebtSettled
	}

	if d.Attempts, err = tx.attempts(requestID); err != nil {
		return nil, err
	}

	sent := false
	for _, r := range d.Attempts {
		if r.End == nil {
			return nil, job.ErrRefundOpen
		}
		sent = sent || r.End.State == payments.PaymentSucceeded
	}

	switch left := d.LeftMsats(); {
	case sent && left == 0:
		return nil, job.ErrDebtSettled
	case sent && msats > left:
		return nil, fmt.Errorf("%d msats are left of the debt: %w", left, job.ErrCreditSpent)
	}

	if len(d.Attempts) >= attemptsMax {
		return nil, fmt.Errorf("%d attempts were made: %w", attemptsMax, job.ErrConflict)
	}
	return d.Attempts, nil
}

// WriteOff records that the operator settled msats of a debt by other means:
// they are no credit any more.
func (s Refunds) WriteOff(ctx context.Context, requestID string, msats int64, note string, out ...job.OutEvent) error {
	return s.update(ctx, func(tx Debts) error {
		if _, err := tx.unsettled(requestID, msats); err != nil {
			return err
		}
		var buyer string
		if err := tx.QueryRow("SELECT buyer FROM credits WHERE request_id = ?", requestID).Scan(&buyer); err != nil {
			return fmt.Errorf("read debt: %w", err)
		}
		if free, err := tx.creditOf(buyer); err != nil || msats > free {
			return errors.Join(err, fmt.Errorf("%d msats are left of what is owed to the buyer: %w", free, job.ErrCreditSpent))
		}

		_, err := tx.Exec("INSERT INTO write_offs(request_id, buyer, msats, note, at_ms) VALUES (?, ?, ?, ?, ?)",
			requestID, buyer, msats, note, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("write off: %w", err)
		}
		return outbox.Outbox{Tx: tx.Tx}.EnqueueAll(out)
	})
}

// writeOff returns how a debt was written off; nil if it was not.
func (tx Debts) writeOff(requestID string) (*job.WriteOff, error) {
	var w job.WriteOff
	var at int64
	err := tx.QueryRow("SELECT msats, note, at_ms FROM write_offs WHERE request_id = ?", requestID).Scan(&w.Msats, &w.Note, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read write-off: %w", err)
	}
	w.At = row.FromMs(at)
	return &w, nil
}
