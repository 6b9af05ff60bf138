package store

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/payments"
)

// SetSent records that the wallet is about to be told to pay, which a purchase that
// is paying permits. One that was canceled before any wallet was told is paid by none.
func (s *BuyerStore) SetSent(ctx context.Context, requestID string, hash payments.Hash) error {
	return s.update(ctx, func(tx *Tx) error {
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

// attemptWallet reads which wallet an attempt is paid by, and how often that was
// told to.
func (tx *Tx) attemptWallet(a *buyer.Attempt) (err error) {
	if a.Wallet, err = money.Payer(tx.Tx, a.PaymentHash); err != nil {
		return err
	}
	if err := tx.QueryRow("SELECT count(*) FROM sent_payments WHERE payment_hash = ?", a.PaymentHash[:]).Scan(&a.Sent); err != nil {
		return fmt.Errorf("count how often a payment was sent: %w", err)
	}
	return nil
}
