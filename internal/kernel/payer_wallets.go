package kernel

import (
	"database/sql"
	"errors"
	"fmt"

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

// payer is the wallet that a payment was last begun with; "" if that was not
// recorded.
func (tx *Tx) payer(hash payments.Hash) (wallet string, err error) {
	err = tx.QueryRow("SELECT wallet FROM payer_wallets WHERE payment_hash = ? ORDER BY seq DESC LIMIT 1", hash[:]).Scan(&wallet)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read the wallet that pays: %w", err)
	}
	return wallet, nil
}
