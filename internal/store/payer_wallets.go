package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
)

// setPayer records which wallet a payment is begun with, where that is known.
func (tx *Tx) setPayer(hash payments.Hash, wallet string) error {
	if wallet == "" {
		return nil
	}
	_, err := tx.Exec("INSERT INTO payer_wallets(payment_hash, wallet) VALUES (?, ?)", hash[:], wallet)
	if err != nil {
		return fmt.Errorf("record the wallet that pays: %w", err)
	}
	return nil
}

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
	if a.Wallet, err = tx.payer(a.PaymentHash); err != nil {
		return err
	}
	if err := tx.QueryRow("SELECT count(*) FROM sent_payments WHERE payment_hash = ?", a.PaymentHash[:]).Scan(&a.Sent); err != nil {
		return fmt.Errorf("count how often a payment was sent: %w", err)
	}
	return nil
}

// payer is the wallet that a payment was last begun with; "" if that was not
// recorded.
func (tx *Tx) payer(hash payments.Hash) (wallet string, err error) {
	err = tx.QueryRow("SELECT wallet FROM payer_wallets WHERE payment_hash = ? ORDER BY seq DESC LIMIT 1", hash[:]).Scan(&wallet)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read the wallet that pays: %w", err)
	}
	return wallet, nil
}
