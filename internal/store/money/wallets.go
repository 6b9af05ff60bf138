package money

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/payments"
)

// SetPayer records which wallet a payment is begun with, where that is known.
func SetPayer(tx *row.Tx, hash payments.Hash, wallet string) error {
	if wallet == "" {
		return nil
	}
	_, err := tx.Exec("INSERT INTO payer_wallets(payment_hash, wallet) VALUES (?, ?)", hash[:], wallet)
	if err != nil {
		return fmt.Errorf("record the wallet that pays: %w", err)
	}
	return nil
}

// Payer is the wallet that a payment was last begun with; "" if that was not
// recorded.
func Payer(tx *row.Tx, hash payments.Hash) (wallet string, err error) {
	err = tx.QueryRow("SELECT wallet FROM payer_wallets WHERE payment_hash = ? ORDER BY seq DESC LIMIT 1", hash[:]).Scan(&wallet)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read the wallet that pays: %w", err)
	}
	return wallet, nil
}
