package playnet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// Reasons for the cancellation of an invoice, as stored.
const (
	whyCanceled = "canceled by the payee"
	whyExpired  = "expired unpaid"
	whyOverdue  = "held past its deadline"
)

// update runs one durable transaction. It first ends all invoices that are late by
// now, so that fn and every later reader see their effect regardless of when
// somebody looks. An error of fn undoes both; the next reader ends the late ones
// again.
func (l *Ledger) update(ctx context.Context, fn func(tx *sqlite.Tx, now time.Time) error) error {
	err := l.db.Update(ctx, func(tx *sqlite.Tx) error {
		now := time.Now()
		if err := cancelOverdue(tx, now); err != nil {
			return fmt.Errorf("end late invoices: %w", err)
		}
		return fn(tx, now)
	})
	l.wake()
	return err
}

// view runs fn in a snapshot in which no invoice is late.
func (l *Ledger) view(ctx context.Context, fn func(tx *sqlite.Tx) error) error {
	for {
		late := false
		err := l.db.View(ctx, func(tx *sqlite.Tx) error {
			next, err := selectNextDeadline(tx)
			if err != nil {
				return err
			}
			if late = !next.IsZero() && !next.After(time.Now()); late {
				return nil
			}
			return fn(tx)
		})
		if err != nil || !late {
			return err
		}
		if err := l.update(ctx, func(*sqlite.Tx, time.Time) error { return nil }); err != nil {
			return err
		}
	}
}

// cancelOverdue ends every invoice whose deadline has passed.
func cancelOverdue(tx *sqlite.Tx, now time.Time) error {
	for {
		hashes, err := selectOverdue(tx, now, sweepBatch)
		if err != nil || len(hashes) == 0 {
			return err
		}

		for _, hash := range hashes {
			row, err := selectInvoice(tx, hash)
			if err != nil {
				return err
			}
			why := whyExpired
			if row.state == payments.InvoiceHeld {
				why = whyOverdue
			}
			if err := cancel(tx, now, row, why); err != nil {
				return err
			}
		}
	}
}

// wake wakes all waiters after a possible change.
func (l *Ledger) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Ledger) changes() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// wait calls look, in a new snapshot each time, until it returns true. It looks
// again after every write and at every deadline, and stops when ctx ends.
func (l *Ledger) wait(ctx context.Context, look func(tx *sqlite.Tx) (bool, error)) error {
	for {
		changed := l.changes() // before looking, so that no change is missed
		var done bool
		var next time.Time
		err := l.view(ctx, func(tx *sqlite.Tx) (err error) {
			if done, err = look(tx); err != nil || done {
				return err
			}
			next, err = selectNextDeadline(tx)
			return err
		})
		if err != nil || done {
			return err
		}
		if err := sleepUntil(ctx, changed, next); err != nil {
			return err
		}
	}
}

func sleepUntil(ctx context.Context, changed <-chan struct{}, next time.Time) error {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}

	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// begin reserves the payment's money and transfers it at once, unless the invoice
// is a hold invoice.
func (l *Ledger) begin(tx *sqlite.Tx, now time.Time, row invoiceRow, p paymentRow) error {
	if err := putPayment(tx, p); err != nil {
		return err
	}
	if err := insertMove(tx, now, p.payer, accountHeld, p.amountMsats+p.feeMsats, "reserve", &p.hash); err != nil {
		return err
	}
	if !row.hold {
		return settle(tx, now, row, row.preimage)
	}
	if err := updateHeld(tx, row.hash, now.Add(l.cfg.HoldTime)); err != nil {
		return err
	}

	return insertChange(tx, row.wallet, row.hash)
}

// settle transfers the reserved money. The caller has checked the preimage.
func settle(tx *sqlite.Tx, now time.Time, row invoiceRow, preimage payments.Preimage) error {
	p, err := selectInFlight(tx, row.hash)
	if err != nil {
		return err
	}
	if err := insertMove(tx, now, accountHeld, row.wallet, p.amountMsats, "settle", &row.hash); err != nil {
		return err
	}

	if p.feeMsats > 0 {
		if err := insertMove(tx, now, accountHeld, accountFees, p.feeMsats, "fee", &row.hash); err != nil {
			return err
		}
	}

	if err := updateSettled(tx, row.hash, preimage, now); err != nil {
		return err
	}
	if err := updatePaymentEnded(tx, row.hash, payments.PaymentSucceeded, ""); err != nil {
		return err
	}

	return insertChange(tx, row.wallet, row.hash)
}

// cancel ends an open or held invoice; held money goes back in full.
func cancel(tx *sqlite.Tx, now time.Time, row invoiceRow, why string) error {
	if row.state == payments.InvoiceHeld {
		p, err := selectInFlight(tx, row.hash)
		if err != nil {
			return err
		}
		if err := insertMove(tx, now, accountHeld, p.payer, p.amountMsats+p.feeMsats, "refund", &row.hash); err != nil {
			return err
		}
		if err := updatePaymentEnded(tx, row.hash, payments.PaymentFailed, why); err != nil {
			return err
		}
	}

	if err := updateCanceled(tx, row.hash, why); err != nil {
		return err
	}
	return insertChange(tx, row.wallet, row.hash)
}

// canceledError says why an invoice can no longer be paid or settled.
func canceledError(row invoiceRow) error {
	if row.canceledWhy == whyExpired {
		return payments.ErrExpired
	}
	return fmt.Errorf("%w: %s", payments.ErrInvoiceCanceled, row.canceledWhy)
}

// checkOwner returns ErrNotFound if the invoice belongs to another wallet.
func checkOwner(row invoiceRow, err error, wallet string) error {
	if err == nil && row.wallet != wallet {
		return fmt.Errorf("%w: invoice", payments.ErrNotFound)
	}
	return err
}

// unknownOutcome marks errors after which the transaction may have been committed.
func unknownOutcome(err error) error {
	if errors.Is(err, sqlite.ErrCommit) {
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
	}
	return err
}
