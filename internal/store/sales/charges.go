package sales

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// addCharge commits the intent of a charge, together with its job.
func (tx *transaction) addCharge(requestID string, c *job.Charge) error {
	_, err := tx.Exec(`INSERT INTO charges(request_id, purpose, price_msats, quote, quote_hash, payment_hash, nonce, expires_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		requestID, string(c.Purpose), c.PriceMsats, c.Quote, c.QuoteHash[:], row.Blob(c.PaymentHash), row.NotNull(c.Nonce), c.ExpiresAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("add charge for the %s: %w", c.Purpose, err)
	}
	if c.PaymentHash.IsZero() {
		return nil
	}
	return tx.Correlate(requestID, journal.NamePaymentHash, c.PaymentHash.String())
}

// charge reads what is asked for one purpose: sql.ErrNoRows if nothing is.
func (tx *transaction) charge(requestID string, purpose receipts.Purpose) (*job.Charge, error) {
	c := job.Charge{Purpose: purpose}
	var expires int64
	var bolt11, receiptID sql.NullString
	err := tx.QueryRow(`
		SELECT c.price_msats, c.quote, c.quote_hash, coalesce(c.payment_hash, h.payment_hash), c.nonce, c.expires_ms,
			i.bolt11, a.event, r.receipt, r.receipt_id
		FROM charges c
			LEFT JOIN charge_invoices i ON i.request_id = c.request_id AND i.purpose = c.purpose
			LEFT JOIN chosen_hashes h ON h.request_id = c.request_id AND h.purpose = c.purpose
			LEFT JOIN charge_acceptances a ON a.request_id = c.request_id AND a.purpose = c.purpose
			LEFT JOIN receipts r ON r.request_id = c.request_id AND r.purpose = c.purpose
		WHERE c.request_id = ? AND c.purpose = ?`, requestID, string(purpose)).
		Scan(&c.PriceMsats, &c.Quote, row.Into(&c.QuoteHash), row.Into(&c.PaymentHash), &c.Nonce, &expires,
			&bolt11, &c.Acceptance, &c.Receipt, &receiptID)
	if err != nil {
		return nil, err
	}
	c.ExpiresAt, c.BOLT11, c.ReceiptID = row.FromMs(expires), bolt11.String, receiptID.String
	if c.BOLT11 == "" {
		return &c, nil // nothing can have come
	}
	c.Payment, err = tx.chargePayment(requestID, purpose)
	return &c, err
}

// fee reads the engagement fee of a job, nil if none is asked.
func (tx *transaction) fee(requestID string) (*job.Charge, error) {
	c, err := tx.charge(requestID, receipts.PurposeEngagement)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return c, err
}

// chargePayment returns the latest word on the money for a charge, nil if none came.
func (tx *transaction) chargePayment(requestID string, purpose receipts.Purpose) (*job.Payment, error) {
	var p job.Payment
	var by sql.NullInt64
	var at int64
	err := tx.QueryRow(`SELECT payment_hash, state, paid_msats, settle_by_ms, recorded_ms, outpoints, preimage FROM charge_payments
		WHERE request_id = ? AND purpose = ? ORDER BY seq DESC LIMIT 1`, requestID, string(purpose)).
		Scan(row.Into(&p.Hash), &p.State, &p.PaidMsats, &by, &at, &p.Outpoints, row.Into(&p.Preimage))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	p.SettleBy, p.RecordedAt = row.FromNullMs(by), row.FromMs(at)
	return &p, err
}

// openCharge reads a charge that may still be paid, and its job. A fee is paid before
// anything else happens to the job.
func (tx *transaction) openCharge(requestID string, purpose receipts.Purpose) (jobRow, *job.Charge, error) {
	states := openStates()
	if purpose == receipts.PurposeEngagement {
		states = []job.State{job.StateQuoted}
	}
	j, err := tx.jobIn(requestID, states...)
	if err != nil {
		return j, nil, err
	}

	c, err := tx.charge(requestID, purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return j, nil, j.conflict("asks nothing for the " + string(purpose))
	case err != nil:
		return j, nil, fmt.Errorf("read charge of job %s: %w", requestID, err)
	case c.Receipt != nil:
		return j, nil, j.conflict("has been paid for the " + string(purpose))
	}

	return j, c, nil
}

// SetInvoice records the invoice of a charge that has none, and the payment hash if the
// wallet chose it.
func (s *Store) SetInvoice(ctx context.Context, requestID string, purpose receipts.Purpose, bolt11 string, chosen payments.Hash, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *transaction) error {
		j, c, err := tx.openCharge(requestID, purpose)
		switch {
		case err != nil:
			return err
		case c.BOLT11 == bolt11 && bolt11 != "":
			return nil
		case c.BOLT11 != "":
			return j.conflict("has another invoice")
		case j.mode == receipts.ModeFree:
			return j.conflict("needs no invoice")
		case c.PaymentHash.IsZero() == chosen.IsZero():
			return j.conflict("has a payment hash and was given another, or has none")
		}

		_, err = tx.Exec("INSERT INTO charge_invoices(request_id, purpose, bolt11, at_ms) VALUES (?, ?, ?, ?)",
			requestID, string(purpose), bolt11, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record invoice: %w", err)
		}
		if err := tx.chooseHash(j, purpose, chosen); err != nil {
			return err
		}

		return tx.EnqueueAll(out)
	})
}

// chooseHash records the payment hash that the wallet chose, unless it chose none.
func (tx *transaction) chooseHash(j jobRow, purpose receipts.Purpose, chosen payments.Hash) error {
	if chosen.IsZero() {
		return nil
	}
	var known bool
	if err := tx.QueryRow("SELECT EXISTS ("+jobOfPayment+")", chosen[:]).Scan(&known); err != nil {
		return fmt.Errorf("look for the payment hash: %w", err)
	}
	if known {
		return j.conflict("the wallet chose the payment hash of another payment")
	}

	_, err := tx.Exec("INSERT INTO chosen_hashes(request_id, purpose, payment_hash) VALUES (?, ?, ?)", j.id, string(purpose), chosen[:])
	if err != nil {
		return fmt.Errorf("record payment hash: %w", err)
	}
	return tx.Correlate(j.id, journal.NamePaymentHash, chosen.String())
}

// SetAcceptance records the buyer's acceptance of a charge; the first stays. A charge
// that was paid takes none: its receipt already says whether there was one.
func (s *Store) SetAcceptance(ctx context.Context, requestID string, purpose receipts.Purpose, event []byte) error {
	return s.update(ctx, func(tx *transaction) error {
		if _, _, err := tx.openCharge(requestID, purpose); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO charge_acceptances(request_id, purpose, event, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, string(purpose), event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record acceptance: %w", err)
		}
		return nil
	})
}

func (tx *transaction) addPayment(j jobRow, c *job.Charge, p job.Payment) error {
	if p.Hash != c.PaymentHash {
		return j.conflict("the payment is for another invoice")
	}
	var preimage []byte
	if !p.Preimage.IsZero() {
		preimage = p.Preimage[:]
	}
	_, err := tx.Exec(`INSERT INTO charge_payments(request_id, purpose, payment_hash, state, paid_msats, settle_by_ms, recorded_ms, outpoints, preimage)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, j.id, string(c.Purpose), p.Hash[:], string(p.State), p.PaidMsats, row.Ms(p.SettleBy), tx.Now().UnixMilli(), p.Outpoints, preimage)
	if err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	return nil
}

// Settle records the final payment of a charge and issues its receipt. That of the result
// moves delivering to succeeded; after a fee the job stays quoted, and what comes next is
// what comes first without one. issue runs inside the transaction: it must not use the
// store.
func (s *Store) Settle(ctx context.Context, requestID string, purpose receipts.Purpose, p job.Payment, issue func(job.Issue) (job.Issued, error)) error {
	return s.update(ctx, func(tx *transaction) error {
		j, c, err := tx.openCharge(requestID, purpose)
		if err != nil {
			return err
		}
		isResult := purpose == receipts.PurposeResult
		if isResult && !j.state.Leads(job.StateSucceeded) {
			return j.conflict("has delivered nothing yet")
		}
		if err := tx.setSettled(j, c, p); err != nil {
			return err
		}
		if err := tx.issueReceipt(j, purpose, issue); err != nil || !isResult {
			return err
		}
		if err := tx.endJobThread(j, journal.ThreadCompleted); err != nil {
			return err
		}

		return tx.appendJobState(j.seq, job.StateSucceeded, job.Reason{})
	})
}

// setSettled records the final payment. A prepaid job's was recorded when it
// came; then it must be the same.
func (tx *transaction) setSettled(j jobRow, c *job.Charge, p job.Payment) error {
	if p.State != payments.InvoiceSettled || p.Hash.IsZero() {
		return j.conflict("the payment is not settled")
	}

	known, err := tx.chargePayment(j.id, c.Purpose)
	switch {
	case err != nil:
		return fmt.Errorf("read payment: %w", err)
	case known == nil || known.State != payments.InvoiceSettled:
		return tx.addPayment(j, c, p)
	case p.Hash != c.PaymentHash || p.PaidMsats != known.PaidMsats:
		return j.conflict("another payment was recorded")
	}
	return nil
}
