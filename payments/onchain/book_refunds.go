package onchain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// refundsSchema keeps the addresses at which we wait for refunds.
const refundsSchema = `
CREATE TABLE refund_addresses (
  address TEXT PRIMARY KEY,
  height  INTEGER NOT NULL,
  at_ms   INTEGER NOT NULL
) STRICT;
`

func (b *Book) addRefundAddress(ctx context.Context, address string, height int64) error {
	return b.exec(ctx, "record refund address", "INSERT INTO refund_addresses (address, height, at_ms) VALUES (?, ?, ?)",
		address, height, time.Now().UnixMilli())
}

// refundAddress returns the height and the time at which an address was made;
// payments.ErrNotFound.
func (b *Book) refundAddress(ctx context.Context, address string) (height int64, at time.Time, err error) {
	var ms int64
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT height, at_ms FROM refund_addresses WHERE address = ?", address).Scan(&height, &ms)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, at, fmt.Errorf("%w: no refund was asked to %s", payments.ErrNotFound, address)
	case err != nil:
		return 0, at, fmt.Errorf("read refund address: %w", err)
	}
	return height, time.UnixMilli(ms).UTC(), nil
}

// isOurs reports whether a request was made for the address, or a refund asked to
// it.
func (b *Book) isOurs(ctx context.Context, address string) (ours bool, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM requests WHERE address = ?1)
			OR EXISTS (SELECT 1 FROM refund_addresses WHERE address = ?1)`, address).Scan(&ours)
	})
	if err != nil {
		return false, fmt.Errorf("look for address: %w", err)
	}
	return ours, nil
}
