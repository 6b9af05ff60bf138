package store

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
)

// CreditOf is what the buyer's next quote may be lowered by.
func (s *ProviderStore) CreditOf(ctx context.Context, buyer string) (msats int64, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		msats, err = tx.creditOf(buyer)
		return err
	})
	return msats, err
}

func (tx *Tx) creditOf(buyer string) (msats int64, err error) {
	err = tx.QueryRow("SELECT coalesce(sum(msats), 0) FROM credit_entries WHERE buyer = ?", buyer).Scan(&msats)
	if err != nil {
		return 0, fmt.Errorf("sum credit: %w", err)
	}
	return msats, nil
}

// useCredit records what a job's quote is lowered by.
func (tx *Tx) useCredit(j job.Job) error {
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

// nameRefund records that the job's refund goes to its address, if no other buyer
// has named that.
func (tx *Tx) nameRefund(j job.Job) error {
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

// addRefund records the attempt to pay a debt. The job has ended by then: what
// it used of the buyer's credit is the buyer's again.
func (tx *Tx) addRefund(c *job.Credit) error {
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
	return tx.setPayer(r.PaymentHash, r.Wallet)
}

// Debts lists what was ever owed to buyers, oldest first.
func (s *ProviderStore) Debts(ctx context.Context) (list []job.Debt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err = tx.debts("ORDER BY rowid")
		return err
	})
	return list, err
}

// DebtOf is what was owed for one job; nil if nothing was.
func (s *ProviderStore) DebtOf(ctx context.Context, requestID string) (d *job.Debt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err := tx.debts("WHERE request_id = ?", requestID)
		if err == nil && len(list) > 0 {
			d = &list[0]
		}
		return err
	})
	return d, err
}

func (tx *Tx) debts(which string, args ...any) ([]job.Debt, error) {
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

func (tx *Tx) owed(which string, args ...any) (list []job.Debt, err error) {
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

// SetRefund records what came back of a failed prepayment; the first stays.
func (s *BuyerStore) SetRefund(ctx context.Context, requestID string, msats int64) error {
	return s.update(ctx, func(tx *Tx) error {
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
func (tx *Tx) isRefundOf(requestID string) error {
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
