package sales

import (
	"context"

	"github.com/lightwork-market/lightwork/internal/store/names"
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
