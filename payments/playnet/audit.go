package playnet

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// ErrAudit means that the ledger's books are inconsistent.
var ErrAudit = errors.New("playnet: the books do not agree")

// audits are sums that must be 0.
var audits = [...]struct{ what, query string }{
	{"all accounts", `SELECT coalesce(sum(balance_msats), 0) FROM accounts`},
	{
		"held money and payments in flight",
		`SELECT (SELECT balance_msats FROM accounts WHERE name = '@held')
		- (SELECT coalesce(sum(amount_msats + fee_msats), 0) FROM payments WHERE state = 'in_flight')`,
	},
	{
		"fees and payments that succeeded",
		`SELECT (SELECT balance_msats FROM accounts WHERE name = '@fees')
		- (SELECT coalesce(sum(fee_msats), 0) FROM payments WHERE state = 'succeeded')`,
	},
	{
		"balances and moves",
		`SELECT count(*) FROM accounts a WHERE balance_msats <>
		(SELECT coalesce(sum(msats), 0) FROM moves WHERE dst = a.name) - (SELECT coalesce(sum(msats), 0) FROM moves WHERE src = a.name)`,
	},
	{
		"settled invoices and payments that succeeded",
		`SELECT count(*) FROM invoices i LEFT JOIN payments p ON p.payment_hash = i.payment_hash AND p.state <> 'failed'
		WHERE coalesce(p.state, '') <> CASE i.state WHEN 'settled' THEN 'succeeded' WHEN 'held' THEN 'in_flight' ELSE '' END
		OR p.amount_msats <> i.amount_msats`,
	},
}

// Audit adds up all money in one snapshot and returns ErrAudit if any msat is
// missing or counted twice.
func (l *Ledger) Audit(ctx context.Context) (Totals, error) {
	var t Totals
	err := l.db.View(ctx, func(tx *sqlite.Tx) error {
		for _, a := range audits {
			var off int64
			if err := tx.QueryRow(a.query).Scan(&off); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
			if off != 0 {
				return fmt.Errorf("%w: %s are off by %d", ErrAudit, a.what, off)
			}
		}

		return tx.QueryRow(`SELECT
			-(SELECT balance_msats FROM accounts WHERE name = '@issued'),
			(SELECT balance_msats FROM accounts WHERE name = '@held'),
			(SELECT balance_msats FROM accounts WHERE name = '@fees'),
			(SELECT coalesce(sum(balance_msats), 0) FROM accounts WHERE name NOT LIKE '@%')`).
			Scan(&t.IssuedMsats, &t.HeldMsats, &t.FeesMsats, &t.WalletsMsats)
	})
	return t, err
}
