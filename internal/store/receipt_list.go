package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

// StoredReceipt is one receipt of a side's database.
type StoredReceipt struct {
	RequestID string
	ReceiptID string
	// Doc is the receipt itself in a provider's database, and the signed event
	// that brought it in a buyer's.
	Doc []byte
}

const (
	// soldReceipts are those of results and of engagement fees, in one chain.
	soldReceipts   = "SELECT request_id, receipt_id, receipt, sequence FROM receipts%s"
	boughtReceipts = "SELECT request_id, receipt_id, event, at_ms FROM purchase_receipts%s"
	newestFirst    = " ORDER BY 4 DESC LIMIT ?1"
	// A range, so that it is served by the index of its column.
	ofReceipt = " WHERE receipt_id >= ?1 AND receipt_id < ?2"
	ofRequest = " WHERE request_id >= ?1 AND request_id < ?2"
	// maxNamed is enough to tell that a name is too short.
	maxNamed = " LIMIT 3"
)

// Receipts lists what was signed, newest first; at most limit if limit > 0.
func (s *ProviderStore) Receipts(ctx context.Context, limit int) (list []StoredReceipt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err = tx.receipts(fmt.Sprintf(soldReceipts, "")+newestFirst, atMost(limit))
		return err
	})
	return list, err
}

// FindReceipts finds those whose id, or whose request's, begins with name, which
// has at least MinNamePrefix bytes; three at most.
func (s *ProviderStore) FindReceipts(ctx context.Context, name string) (list []StoredReceipt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err = tx.findReceipts(soldReceipts, name)
		return err
	})
	return list, err
}

// Receipts lists what came, newest first; at most limit if limit > 0.
func (s *BuyerStore) Receipts(ctx context.Context, limit int) (list []StoredReceipt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err = tx.receipts(fmt.Sprintf(boughtReceipts, "")+newestFirst, atMost(limit))
		return err
	})
	return list, err
}

// FindReceipts finds those whose id, or whose request's, begins with name, which
// has at least MinNamePrefix bytes; three at most.
func (s *BuyerStore) FindReceipts(ctx context.Context, name string) (list []StoredReceipt, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		list, err = tx.findReceipts(boughtReceipts, name)
		return err
	})
	return list, err
}

// atMost is a limit as SQLite has it.
func atMost(limit int) int {
	if limit <= 0 {
		return -1
	}
	return limit
}

func (tx *Tx) findReceipts(query, name string) ([]StoredReceipt, error) {
	if len(name) < MinNamePrefix {
		return nil, fmt.Errorf("a name of %d bytes: %w", len(name), row.ErrInvalid)
	}
	named := ofRequest
	if strings.HasPrefix(name, receiptPrefix) {
		named = ofReceipt
	}
	return tx.receipts(fmt.Sprintf(query, named)+maxNamed, name, name+"\U0010ffff")
}

func (tx *Tx) receipts(query string, args ...any) (list []StoredReceipt, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("list receipts: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var r StoredReceipt
		var order int64
		if err := rows.Scan(&r.RequestID, &r.ReceiptID, &r.Doc, &order); err != nil {
			return nil, fmt.Errorf("list receipts: %w", err)
		}
		list = append(list, r)
	}

	return list, rows.Err()
}
