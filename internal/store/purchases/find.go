package purchases

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/names"
)

const (
	purchaseIDs   = "SELECT request_id FROM purchases"
	purchasesPaid = "SELECT DISTINCT request_id FROM purchase_receipts"
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
