// Package money keeps what is owed, reserved, spent and refunded.
package money

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("credits", "job_credits", "late_credits", "refunds", "refund_retries", "refund_outcomes",
		"write_offs", "refund_addresses", "attempts", "ledger", "purchase_payments",
		"purchase_refunds", "purchase_credits", "payer_wallets", "sent_payments", "sent_refunds")
}

// Grouping is what accounts are added up by.
type Grouping string

// The groupings. Days and months are those of UTC, as budgets are.
const (
	ByDay   Grouping = "day"
	ByMonth Grouping = "month"
	ByJob   Grouping = "job"   // the job type
	ByParty Grouping = "party" // the key of whom it was paid to, or came from
)

// Period is what an account is of: from Since to before Until; the zero time is no
// bound.
type Period struct {
	By           Grouping
	Since, Until time.Time
}

// Sum is what purchases cost, or sales brought, added up.
type Sum struct {
	Of       string // the day, month, job type, provider or buyer
	Payments int64  // that succeeded, or arrived for good; engagement fees too
	Msats    int64  // of them, without fees
	// BackMsats is what came back of a purchase. Of sales it is what became owed to
	// buyers, because their prepaid job failed or more came than was asked. What of it
	// lowered the price of a later job is earned there, and taken off again.
	BackMsats int64
	FeesMsats int64 // of routing, or of miners: of payments, failed ones too, and of refunds
}

const (
	spendingRows = `
		SELECT m.at_ms, p.schema_id, p.provider AS party, m.state = 'succeeded' AS payments,
			iif(m.state = 'succeeded', m.amount_msats, 0) AS a, 0 AS b, m.fee_msats AS c
		FROM purchase_payments m JOIN purchases p USING (request_id)
		UNION ALL
		SELECT r.at_ms, p.schema_id, p.provider, 0, 0, r.msats, 0 FROM purchase_refunds r JOIN purchases p USING (request_id)`
	earningRows = `
		SELECT m.recorded_ms AS at_ms, j.schema_id, q.buyer AS party, 1 AS payments, m.paid_msats AS a, 0 AS b, 0 AS c
		FROM charge_payments m JOIN jobs j USING (request_id) JOIN requests q USING (request_id) WHERE m.state = 'settled'
		UNION ALL
		SELECT d.at_ms, j.schema_id, d.buyer, 0, 0, d.msats, 0
		FROM (SELECT request_id, buyer, msats, at_ms FROM credits UNION ALL SELECT request_id, buyer, msats, at_ms FROM late_credits) d
		JOIN jobs j USING (request_id)
		UNION ALL
		SELECT j.added_ms, j.schema_id, u.buyer, 0, 0, -u.msats, 0 FROM job_credits u JOIN jobs j USING (request_id)
		WHERE EXISTS (SELECT 1 FROM receipts x WHERE x.request_id = u.request_id AND x.purpose = 'result')
		UNION ALL
		SELECT e.at_ms, j.schema_id, e.buyer, 0, 0, 0, e.fee_msats FROM refund_outcomes e JOIN jobs j USING (request_id)`
)

// Spendings adds up what was paid for purchases: by time in its order, else the most
// first.
func Spendings(ctx context.Context, db *row.DB, p Period) ([]Sum, error) {
	return account(ctx, db, p, spendingRows)
}

// Earnings adds up what came for sales, in the same order.
func Earnings(ctx context.Context, db *row.DB, p Period) ([]Sum, error) {
	return account(ctx, db, p, earningRows)
}

// account adds the rows of a period up by what its grouping says.
func account(ctx context.Context, db *row.DB, p Period, of string) (list []Sum, err error) {
	group, order := "", "1"
	switch p.By {
	case ByDay:
		group = "strftime('%Y-%m-%d', at_ms / 1000, 'unixepoch')"
	case ByMonth:
		group = "strftime('%Y-%m', at_ms / 1000, 'unixepoch')"
	case ByJob:
		group, order = "schema_id", "3 DESC, 1"
	case ByParty:
		group, order = "party", "3 DESC, 1"
	default:
		return nil, fmt.Errorf("%w: accounts are by %s, %s, %s or %s, not by %q", row.ErrInvalid, ByDay, ByMonth, ByJob, ByParty, p.By)
	}

	until := p.Until
	if until.IsZero() {
		until = time.UnixMilli(1<<53 - 1)
	}
	query := "SELECT " + group + ", sum(payments), sum(a), sum(b), sum(c) FROM (" + of + ") WHERE at_ms >= ? AND at_ms < ? GROUP BY 1 ORDER BY " + order
	err = db.View(ctx, func(tx *row.Tx) error {
		since := int64(0)
		if !p.Since.IsZero() {
			since = p.Since.UnixMilli()
		}
		list, err = row.Column(tx, func(rows *sql.Rows, s *Sum) error {
			return rows.Scan(&s.Of, &s.Payments, &s.Msats, &s.BackMsats, &s.FeesMsats)
		}, query, since, until.UnixMilli())
		if err != nil {
			return fmt.Errorf("add up the accounts: %w", err)
		}
		return nil
	})
	return list, err
}
