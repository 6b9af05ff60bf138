package kernel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// addEngagement commits the intent of a job's fee, together with the job.
func (tx *Tx) addEngagement(requestID string, e *job.Engagement) error {
	if e == nil {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO job_engagements(request_id, price_msats, quote, quote_hash, payment_hash, nonce, expires_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?)`,
		requestID, e.PriceMsats, e.Quote, e.QuoteHash[:], row.Blob(e.PaymentHash), row.NotNull(e.Nonce), e.ExpiresAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("add engagement fee: %w", err)
	}
	return tx.Correlate(requestID, journal.NamePaymentHash, e.PaymentHash.String())
}

// jobEngagement reads a job's fee, nil if none is asked.
func (tx *Tx) jobEngagement(requestID string) (*job.Engagement, error) {
	var e job.Engagement
	var expires int64
	var bolt11, receiptID sql.NullString
	err := tx.QueryRow(`
		SELECT e.price_msats, e.quote, e.quote_hash, e.payment_hash, e.nonce, e.expires_ms, i.bolt11, a.event,
			coalesce(r.paid_msats, 0), r.receipt, r.receipt_id
		FROM job_engagements e
			LEFT JOIN engagement_invoices i ON i.request_id = e.request_id
			LEFT JOIN engagement_acceptances a ON a.request_id = e.request_id
			LEFT JOIN engagement_receipts r ON r.request_id = e.request_id
		WHERE e.request_id = ?`, requestID).
		Scan(&e.PriceMsats, &e.Quote, row.Into(&e.QuoteHash), row.Into(&e.PaymentHash), &e.Nonce, &expires, &bolt11, &e.Acceptance,
			&e.PaidMsats, &e.Receipt, &receiptID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.ExpiresAt, e.BOLT11, e.ReceiptID = row.FromMs(expires), bolt11.String, receiptID.String
	return &e, nil
}

// askedFee reads the fee of a job that waits for it.
func (tx *Tx) askedFee(requestID string) (jobRow, *job.Engagement, error) {
	j, err := tx.jobIn(requestID, job.StateQuoted)
	if err != nil {
		return j, nil, err
	}
	e, err := tx.jobEngagement(requestID)
	switch {
	case err != nil:
		return j, nil, fmt.Errorf("read engagement fee: %w", err)
	case e == nil:
		return j, nil, j.conflict("asks no engagement fee")
	case e.Receipt != nil:
		return j, nil, j.conflict("has its engagement fee")
	}
	return j, e, nil
}

// SetEngagementInvoice records the invoice of a fee that has none.
func (s *ProviderStore) SetEngagementInvoice(ctx context.Context, requestID, bolt11 string, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *Tx) error {
		j, e, err := tx.askedFee(requestID)
		switch {
		case err != nil:
			return err
		case e.BOLT11 == bolt11 && bolt11 != "":
			return nil
		case e.BOLT11 != "":
			return j.conflict("has another invoice for its fee")
		}
		_, err = tx.Exec("INSERT INTO engagement_invoices(request_id, bolt11, at_ms) VALUES (?, ?, ?)", requestID, bolt11, tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("record invoice of the fee: %w", err)
		}
		return tx.enqueueAll(out)
	})
}

// SetEngagementAcceptance records the buyer's acceptance of the fee; the first stays.
func (s *ProviderStore) SetEngagementAcceptance(ctx context.Context, requestID string, event []byte) error {
	return s.update(ctx, func(tx *Tx) error {
		if _, _, err := tx.askedFee(requestID); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO engagement_acceptances(request_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, event, tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("record acceptance of the fee: %w", err)
		}
		return nil
	})
}

// SettleEngagement records the fee and issues its receipt, both at once. The job
// stays quoted: what comes next is what comes first without a fee.
func (s *ProviderStore) SettleEngagement(ctx context.Context, requestID string, p job.Payment, issue func(job.Issue) (job.Issued, error)) error {
	return s.update(ctx, func(tx *Tx) error {
		j, e, err := tx.askedFee(requestID)
		switch {
		case err != nil:
			return err
		case p.State != payments.InvoiceSettled || p.Hash.IsZero() || p.Hash != e.PaymentHash:
			return j.conflict("the fee is not settled")
		}
		in, issued, err := tx.nextReceipt(issue)
		if err != nil {
			return err
		}
		hash := hashing.Bytes(issued.Receipt)
		_, err = tx.Exec(`INSERT INTO engagement_receipts(sequence, request_id, paid_msats, receipt_id, receipt, receipt_hash, previous_hash, issued_ms)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			in.Sequence, requestID, p.PaidMsats, issued.ReceiptID, issued.Receipt, hash[:], row.BlobPtr(in.Previous), tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("record receipt of the fee: %w", err)
		}
		if err := tx.Correlate(requestID, journal.NameReceipt, issued.ReceiptID); err != nil {
			return err
		}
		return tx.enqueueAll(issued.Out)
	})
}
