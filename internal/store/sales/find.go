package sales

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
)

const (
	requestIDs = "SELECT request_id FROM requests"
	jobsPaid   = "SELECT DISTINCT request_id FROM receipts"
	// signed are the receipts of results and of engagement fees, in one chain.
	signed = "SELECT request_id, receipt_id, receipt, sequence FROM receipts"
	// CROSS: otherwise all that ever were are gone through, to have them in order.
	openJobIDs        = "SELECT o.request_id FROM open_jobs o CROSS JOIN requests r ON r.request_id = o.request_id ORDER BY r.seq"
	unknownPaymentIDs = "SELECT o.request_id FROM unknown_payments o CROSS JOIN requests r ON r.request_id = o.request_id ORDER BY r.seq"
)

// FindJob resolves the beginning of a request id or of a receipt id ("rcpt_..."),
// at least 6 hex digits of it. ErrAmbiguous if several fit.
func (s *Store) FindJob(ctx context.Context, prefix string) (j job.Job, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		id, err := names.Request(tx.Tx, prefix, requestIDs, jobsPaid, job.ErrNotFound)
		if err != nil {
			return err
		}
		j, err = tx.job(id)
		return err
	})
	return j, err
}

// Receipts lists what was signed, newest first; at most limit if limit > 0.
func (s *Store) Receipts(ctx context.Context, limit int) (list []names.Receipt, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err = names.Receipts(tx.Tx, signed, limit)
		return err
	})
	return list, err
}

// FindReceipts finds those whose id, or whose request's, begins with name, which
// has at least names.MinPrefix bytes; three at most.
func (s *Store) FindReceipts(ctx context.Context, name string) (list []names.Receipt, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err = names.FindReceipts(tx.Tx, signed, name)
		return err
	})
	return list, err
}

// Events are the signed events of a job, oldest first.
func (s *Store) Events(ctx context.Context, requestID string) (list []job.OutEvent, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		scan := func(rows *sql.Rows, e *job.OutEvent) error { return rows.Scan(&e.EventID, &e.Event, &e.Sig) }
		list, err = row.Column(tx.Tx, scan, `SELECT o.event_id, o.event, coalesce(s.sig, '') FROM requests r JOIN outbox o ON o.job = r.seq
			LEFT JOIN event_signatures s ON s.event_id = o.event_id WHERE r.request_id = ? ORDER BY o.seq`, requestID)
		if err != nil {
			return fmt.Errorf("read events of job %s: %w", requestID, err)
		}
		return nil
	})
	return list, err
}

// PreviousReceipt is the receipt before one in the chain; nil if it is the first, or if
// the one before was signed elsewhere.
func (s *Store) PreviousReceipt(ctx context.Context, receiptID string) (doc []byte, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		err := tx.QueryRow("SELECT p.receipt FROM receipts r JOIN receipts p ON p.sequence = r.sequence - 1 WHERE r.receipt_id = ?", receiptID).Scan(&doc)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the receipt before %s: %w", receiptID, err)
		}
		return nil
	})
	return doc, err
}
