package purchases

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Reserve moves requested to paying and reserves amount + fee limit.
func (s *Store) Reserve(ctx context.Context, requestID string, c buyer.Charge, l buyer.Limits) error {
	return s.update(ctx, func(tx *transaction) error { return tx.reserve(requestID, c, l) })
}

func (tx *transaction) reserve(requestID string, c buyer.Charge, l buyer.Limits) error {
	if c.Attempt == nil {
		return fmt.Errorf("reserve for purchase %s: the charge names no payment: %w", requestID, buyer.ErrConflict)
	}

	a := *c.Attempt
	var provider string
	var maxMsats int64
	err := tx.QueryRow("SELECT provider, max_msats FROM purchases WHERE request_id = ?", requestID).Scan(&provider, &maxMsats)
	if err != nil {
		return row.NotFound(err, "purchase "+requestID)
	}
	if err := tx.CheckFirst(requestID, provider, c.BOLT11, a); err != nil {
		return err
	}
	if _, err := tx.purchaseIn(requestID, buyer.StateRequested); err != nil {
		return err
	}

	if err := tx.Ledger.Reserve(requestID, provider, maxMsats, c, l); err != nil {
		return err
	}
	if err := tx.Correlate(requestID, journal.NamePaymentHash, a.PaymentHash.String()); err != nil {
		return err
	}

	return tx.appendPurchaseState(requestID, buyer.StatePaying, "")
}

// Fits reports whether a payment would be within the limits now.
func (s *Store) Fits(ctx context.Context, provider string, maxMsats int64, a buyer.Attempt, l buyer.Limits) error {
	return s.view(ctx, func(tx *transaction) error { return tx.CheckBudget(provider, maxMsats, a, l) })
}

// BudgetOf gives the ledger of the day of at (UTC).
func (s *Store) BudgetOf(ctx context.Context, at time.Time) (b buyer.Budget, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		b, err = tx.Ledger.BudgetOf(at)
		return err
	})
	return b, err
}

// Paid moves paying to paid: the reservation becomes spending.
func (s *Store) Paid(ctx context.Context, requestID string, p payments.Payment) error {
	if !p.Shown() {
		return fmt.Errorf("payment of %s is not proved (%s): %w", requestID, p.State, buyer.ErrConflict)
	}
	return s.resolve(ctx, requestID, p, buyer.StatePaid, "") // or requested again
}

// Unpaid releases the reservation of a payment that failed for good, but for what
// the attempt has cost.
func (s *Store) Unpaid(ctx context.Context, requestID string, p payments.Payment, to buyer.State, reason string) error {
	if to != buyer.StateFailed && to != buyer.StateCanceled {
		return fmt.Errorf("an unpaid purchase ends as failed or canceled, not as %s: %w", to, buyer.ErrConflict)
	}
	if p.State != payments.PaymentFailed {
		return fmt.Errorf("payment of %s has not failed (%s): %w", requestID, p.State, buyer.ErrConflict)
	}
	p.Preimage, p.Outpoints = payments.Preimage{}, "" // of a failed payment there is none
	return s.resolve(ctx, requestID, p, to, reason)
}

// resolve ends the reservation with the outcome p. The same outcome again
// changes nothing; another is refused.
func (s *Store) resolve(ctx context.Context, requestID string, p payments.Payment, to buyer.State, reason string) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		purpose, err := tx.PurposeOf(requestID, p.Hash)
		if err != nil {
			return err
		}
		known, err := tx.PaymentFor(requestID, purpose)
		if err != nil {
			return fmt.Errorf("read payment: %w", err)
		}
		if known != nil && *known == p {
			return nil
		}
		if _, err := tx.purchaseIn(requestID, buyer.StatePaying); err != nil {
			return err
		}

		if err := tx.Resolve(requestID, purpose, p); err != nil {
			return err
		}
		if purpose == receipts.PurposeEngagement && to == buyer.StatePaid {
			to = buyer.StateRequested // what comes next is what comes first without a fee
		}
		return tx.appendPurchaseState(requestID, to, reason)
	})
}

// SetSent records that the wallet is about to be told to pay, which a purchase that
// is paying permits. One that was canceled before any wallet was told is paid by none.
func (s *Store) SetSent(ctx context.Context, requestID string, hash payments.Hash) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, err := tx.purchaseIn(requestID, buyer.StatePaying); err != nil {
			return err
		}

		var ours int
		err := tx.QueryRow("SELECT count(*) FROM attempts WHERE request_id = ? AND payment_hash = ?", requestID, hash[:]).Scan(&ours)
		if err != nil {
			return fmt.Errorf("look for the attempt to pay: %w", err)
		}
		if ours == 0 {
			return fmt.Errorf("purchase %s has no payment %s: %w", requestID, hash, buyer.ErrConflict)
		}

		var dropped bool
		err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM purchase_cancels WHERE request_id = ?) AND NOT EXISTS (SELECT 1 FROM sent_payments WHERE payment_hash = ?)`,
			requestID, hash[:]).Scan(&dropped)
		if err != nil {
			return fmt.Errorf("look for a cancellation: %w", err)
		}
		if dropped {
			return fmt.Errorf("purchase %s: %w", requestID, buyer.ErrNeverSent)
		}

		if _, err := tx.Exec("INSERT INTO sent_payments(payment_hash, at_ms) VALUES (?, ?)", hash[:], tx.Now().UnixMilli()); err != nil {
			return fmt.Errorf("record that a payment is sent: %w", err)
		}

		return nil
	})
}

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
