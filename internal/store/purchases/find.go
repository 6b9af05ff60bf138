package purchases

import (
	"context"
	"database/sql"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	purchaseIDs   = "SELECT request_id FROM purchases"
	purchasesPaid = "SELECT DISTINCT request_id FROM purchase_receipts"
	receivedSince = "SELECT request_id, receipt_id, purpose FROM purchase_receipts WHERE at_ms >= ? ORDER BY at_ms, receipt_id"
	received      = "SELECT request_id, receipt_id, event, at_ms FROM purchase_receipts"
	// CROSS: otherwise all that ever were are gone through, to have them in order.
	openPurchaseIDs = "SELECT o.request_id FROM open_purchases o CROSS JOIN purchases p ON p.request_id = o.request_id ORDER BY p.seq"
)

// FindPurchase resolves the beginning of a request id or of a receipt id
// ("rcpt_..."), at least 6 hex digits of it. ErrAmbiguous if several fit.
func (s *Store) FindPurchase(ctx context.Context, prefix string) (p buyer.Purchase, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		id, err := names.Request(tx.Tx, prefix, purchaseIDs, purchasesPaid, buyer.ErrNotFound)
		if err != nil {
			return err
		}
		p, err = tx.purchase(id)
		return err
	})
	return p, err
}

// Receipts lists what came, newest first; at most limit if limit > 0.
func (s *Store) Receipts(ctx context.Context, limit int) (list []names.Receipt, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err = names.Receipts(tx.Tx, received, limit)
		return err
	})
	return list, err
}

// FindReceipts finds those whose id, or whose request's, begins with name, which
// has at least names.MinPrefix bytes; three at most.
func (s *Store) FindReceipts(ctx context.Context, name string) (list []names.Receipt, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err = names.FindReceipts(tx.Tx, received, name)
		return err
	})
	return list, err
}

// ReceivedReceipt names a receipt that came for a purchase.
type ReceivedReceipt struct {
	RequestID string
	ReceiptID string
	Purpose   receipts.Purpose
}

// ReceivedSince names the receipts that came at a time or later, oldest first.
func (s *Store) ReceivedSince(ctx context.Context, at time.Time) (list []ReceivedReceipt, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		list, err = row.Column(tx.Tx, func(rows *sql.Rows, r *ReceivedReceipt) error {
			return rows.Scan(&r.RequestID, &r.ReceiptID, &r.Purpose)
		}, receivedSince, max(0, at.UnixMilli()))
		return err
	})
	return list, err
}
