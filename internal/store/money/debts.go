package money

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
)

// Debts is a transaction as far as it is about what a provider owes to buyers.
type Debts struct{ *row.Tx }

// Refunds keeps what a provider owes to buyers, and how it is paid back.
type Refunds struct{ db *row.DB }

// NewRefunds is what is owed in a database.
func NewRefunds(db *row.DB) Refunds { return Refunds{db} }

func (s Refunds) update(ctx context.Context, fn func(tx Debts) error) error {
	return s.db.Update(ctx, func(tx *row.Tx) error { return fn(Debts{tx}) })
}

func (s Refunds) view(ctx context.Context, fn func(tx Debts) error) error {
	return s.db.View(ctx, func(tx *row.Tx) error { return fn(Debts{tx}) })
}

// CreditOf is what the buyer's next quote may be lowered by.
func (s Refunds) CreditOf(ctx context.Context, buyer string) (msats int64, err error) {
	err = s.view(ctx, func(tx Debts) error {
		msats, err = tx.creditOf(buyer)
		return err
	})
	return msats, err
}

func (tx Debts) creditOf(buyer string) (msats int64, err error) {
	err = tx.QueryRow("SELECT coalesce(sum(msats), 0) FROM credit_entries WHERE buyer = ?", buyer).Scan(&msats)
	if err != nil {
		return 0, fmt.Errorf("sum credit: %w", err)
	}
	return msats, nil
}

// UseCredit records what a job's quote is lowered by.
func (tx Debts) UseCredit(j job.Job) error {
	if j.CreditMsats == 0 {
		return nil
	}
	free, err := tx.creditOf(j.Buyer)
	if err != nil {
		return err
	}
	if j.CreditMsats > free {
		return fmt.Errorf("job %s uses %d msats, %d are left: %w", j.RequestID, j.CreditMsats, free, job.ErrCreditSpent)
	}

	_, err = tx.Exec("INSERT INTO job_credits(request_id, buyer, msats) VALUES (?, ?, ?)", j.RequestID, j.Buyer, j.CreditMsats)
	if err != nil {
		return fmt.Errorf("use credit: %w", err)
	}
	return nil
}

// NameRefund records that the job's refund goes to its address, if no other buyer
// has named that.
func (tx Debts) NameRefund(j job.Job) error {
	if j.RefundAddress == "" {
		return nil
	}
	_, err := tx.Exec("INSERT INTO refund_addresses(address, buyer, request_id) VALUES (?, ?, ?) ON CONFLICT (address) DO NOTHING",
		j.RefundAddress, j.Buyer, j.RequestID)
	if err != nil {
		return fmt.Errorf("record refund address: %w", err)
	}
	var owner string
	if err := tx.QueryRow("SELECT buyer FROM refund_addresses WHERE address = ?", j.RefundAddress).Scan(&owner); err != nil {
		return fmt.Errorf("read refund address: %w", err)
	}
	if owner != j.Buyer {
		return fmt.Errorf("job %s: %w", j.RequestID, job.ErrRefundOfAnother)
	}

	return nil
}

// AddRefund records the attempt to pay a debt. The job has ended by then: what
// it used of the buyer's credit is the buyer's again.
func (tx Debts) AddRefund(c *job.Credit) error {
	if c == nil || c.Refund == nil {
		return nil
	}
	r := c.Refund
	var known int
	if err := tx.QueryRow("SELECT count(*) FROM refund_attempts WHERE payment_hash = ?", r.PaymentHash[:]).Scan(&known); err != nil {
		return fmt.Errorf("look for refunds: %w", err)
	}
	if known > 0 {
		return fmt.Errorf("refund of %s: %w", c.RequestID, job.ErrRefundTaken)
	}

	_, err := tx.Exec("INSERT INTO refunds(request_id, buyer, bolt11, payment_hash, msats, fee_limit_msats, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
		c.RequestID, c.Buyer, r.BOLT11, r.PaymentHash[:], r.Msats, r.FeeLimitMsats, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record refund: %w", err)
	}
	return SetPayer(tx.Tx, r.PaymentHash, r.Wallet)
}

// AddCredit records what is owed for a job, if anything is.
func (tx Debts) AddCredit(requestID string, c *job.Credit) error {
	if c == nil || c.Msats == 0 {
		return nil
	}
	if c.RequestID != requestID {
		return fmt.Errorf("credit is for request %q: %w", c.RequestID, row.ErrInvalid)
	}

	_, err := tx.Exec("INSERT INTO credits(request_id, buyer, msats, refund_to, at_ms) VALUES (?, ?, ?, ?, ?)",
		c.RequestID, c.Buyer, c.Msats, row.Text(c.RefundTo), tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record credit: %w", err)
	}
	return nil
}

// AddLate records that more came for a job that has ended: the first debt of the job,
// or one beside it.
func (tx Debts) AddLate(c job.Credit, first bool, msats int64) error {
	if first {
		c.Msats = msats
		return tx.AddCredit(c.RequestID, &c)
	}
	_, err := tx.Exec("INSERT INTO late_credits(request_id, buyer, msats, at_ms) VALUES (?, ?, ?, ?)",
		c.RequestID, c.Buyer, msats, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record late money: %w", err)
	}
	return nil
}

// OwedFor is what was ever owed for a job.
func (tx Debts) OwedFor(requestID string) (msats int64, err error) {
	err = tx.QueryRow(`SELECT coalesce((SELECT msats FROM credits WHERE request_id = ?1), 0) +
		coalesce((SELECT sum(msats) FROM late_credits WHERE request_id = ?1), 0)`, requestID).Scan(&msats)
	if err != nil {
		return 0, fmt.Errorf("sum what is owed: %w", err)
	}
	return msats, nil
}

// Debts lists what was ever owed to buyers, oldest first.
func (s Refunds) Debts(ctx context.Context) (list []job.Debt, err error) {
	err = s.view(ctx, func(tx Debts) error {
		list, err = tx.debts("ORDER BY rowid")
		return err
	})
	return list, err
}

// DebtOf is what was owed for one job; nil if nothing was.
func (s Refunds) DebtOf(ctx context.Context, requestID string) (d *job.Debt, err error) {
	err = s.view(ctx, func(tx Debts) error {
		list, err := tx.debts("WHERE request_id = ?", requestID)
		if err == nil && len(list) > 0 {
			d = &list[0]
		}
		return err
	})
	return d, err
}

func (tx Debts) debts(which string, args ...any) ([]job.Debt, error) {
	list, err := tx.owed(which, args...)
	if err != nil {
		return nil, err
	}

	for i := range list {
		d := &list[i]
		if d.Attempts, err = tx.attempts(d.RequestID); err != nil {
			return nil, err
		}
		if n := len(d.Attempts); n > 0 {
			d.Refund = &d.Attempts[n-1]
		}
		if d.WriteOff, err = tx.writeOff(d.RequestID); err != nil {
			return nil, err
		}
		if d.CreditMsats, err = tx.creditOf(d.Buyer); err != nil {
			return nil, err
		}
	}

	return list, nil
}

const creditsOwed = `SELECT request_id, buyer, msats + coalesce((SELECT sum(msats) FROM late_credits l WHERE l.request_id = c.request_id), 0),
	coalesce(refund_to, ''), at_ms FROM credits c %s`

func (tx Debts) owed(which string, args ...any) (list []job.Debt, err error) {
	rows, err := tx.Query(fmt.Sprintf(creditsOwed, which), args...)
	if err != nil {
		return nil, fmt.Errorf("read debts: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var d job.Debt
		var at int64
		if err := rows.Scan(&d.RequestID, &d.Buyer, &d.Msats, &d.RefundTo, &at); err != nil {
			return nil, fmt.Errorf("read debts: %w", err)
		}
		d.At = row.FromMs(at)
		list = append(list, d)
	}

	return list, rows.Err()
}
