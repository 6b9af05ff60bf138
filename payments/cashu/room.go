package cashu

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// room refuses more than may be at the mint: what is there or may come back,
// what is held, what open top-ups bring once they are paid, and msats more. It
// binds only in the transaction that writes what takes the room. Invoices that
// nobody has paid take none: anybody may ask for them, and whoever asked for
// enough would keep the payers out.
func (w *Wallet) room(tx *sqlite.Tx, msats int64) error {
	if w.cfg.MaxMsats == 0 {
		return nil
	}

	now := millis(time.Now())
	var ours, away, held, asked int64
	for _, sum := range []struct {
		to    *int64
		query string
		args  []any
	}{
		{&ours, `SELECT COALESCE(SUM(sats), 0) * 1000 FROM notes WHERE state <> 'spent'`, nil},
		// Locked for a payee, and ours again if it does not take them.
		{&away, `SELECT COALESCE(SUM(amount_msats + fee_msats), 0) FROM payments WHERE state IN ('sent', 'refunding')`, nil},
		{&held, `SELECT COALESCE(SUM(json_extract(n.value, '$.amount')), 0) * 1000 FROM invoices, json_each(invoices.notes) AS n
			WHERE invoices.state IN ('held', 'claiming')`, nil},
		// The mint may hear of a payment a little later than it was made.
		{
			&asked, `SELECT COALESCE(SUM(json_extract(o.value, '$.amount')), 0) * 1000 FROM ops, json_each(ops.outputs) AS o
			WHERE ops.state = 'open' AND ops.kind = 'topup'
			AND (ops.unsure_ms <> 0 OR CASE ops.until_ms WHEN 0 THEN ops.at_ms + ?1 ELSE ops.until_ms + ?2 END > ?3)`,
			[]any{topupKept.Milliseconds(), lateAnswer.Milliseconds(), now},
		},
	} {
		if err := tx.QueryRow(sum.query, sum.args...).Scan(sum.to); err != nil {
			return fmt.Errorf("add up what is at the mint: %w", err)
		}
	}

	over := ours + away + held + asked + msats - w.cfg.MaxMsats
	switch {
	case over <= 0:
		return nil
	case over <= asked:
		return fmt.Errorf("%w: %w: %d msats more than the %d allowed, with %d in top-ups that nobody has paid yet: pay those, or wait until they lapse",
			payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats, asked)
	}

	return fmt.Errorf("%w: %w: %d msats more than the %d allowed: withdraw some first", payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats)
}
