// Package names finds requests and receipts by the beginning of an id, as people
// type them.
package names

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

// ErrAmbiguous: several jobs or purchases begin with the given characters.
var ErrAmbiguous = errors.New("several begin with that; give more characters")

const (
	// MinPrefix is how much of a name must be given.
	MinPrefix = 6
	// receiptPrefix is that of receipt ids; a request's are hex digits.
	receiptPrefix = "rcpt_"
)

// A range, so that it is served by the index of its column, and as many as it takes to
// tell that a name is too short.
const named = " WHERE %[1]s >= ?1 AND %[1]s < ?2 LIMIT 3"

// OfRequest makes the query from find what belongs to the requests of a name.
func OfRequest(from string) string { return from + fmt.Sprintf(named, "request_id") }

// OfReceipt makes the query from find what belongs to the receipts of a name.
func OfReceipt(from string) string { return from + fmt.Sprintf(named, "receipt_id") }

// Newest makes the query from list the last, by its fourth column.
func Newest(from string) string { return from + " ORDER BY 4 DESC LIMIT ?1" }

// Request is the one request whose id, or whose receipt's, begins with prefix, at least
// MinPrefix hex digits of it. requests and receipts are queries of request ids.
// ErrAmbiguous if several fit, notFound if none does.
func Request(tx *row.Tx, prefix, requests, receipts string, notFound error) (string, error) {
	query := OfRequest(requests)
	digits, isReceipt := strings.CutPrefix(prefix, receiptPrefix)
	if isReceipt {
		query = OfReceipt(receipts)
	}
	if len(digits) < MinPrefix || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not at least %d hex digits of an id: %w", prefix, MinPrefix, notFound)
	}

	// 'g' follows the last hex digit: the range is served by the index.
	ids, err := tx.Strings(query, prefix, prefix+"g")
	switch {
	case err != nil:
		return "", fmt.Errorf("find %s: %w", prefix, err)
	case len(ids) == 0:
		return "", fmt.Errorf("%w: %s", notFound, prefix)
	case len(ids) > 1:
		return "", fmt.Errorf("%s: %w", prefix, ErrAmbiguous)
	}

	return ids[0], nil
}

// Receipt is one receipt of a side's database.
type Receipt struct {
	RequestID string
	ReceiptID string
	// Doc is the receipt itself in a provider's database, and the signed event
	// that brought it in a buyer's.
	Doc []byte
}

// Receipts lists the newest first; at most limit if limit > 0. from is a query of the
// request's id, the receipt's id, the document and the order.
func Receipts(tx *row.Tx, from string, limit int) ([]Receipt, error) {
	if limit <= 0 {
		limit = -1
	}
	return list(tx, Newest(from), limit)
}

// FindReceipts finds those whose id, or whose request's, begins with name, which
// has at least MinPrefix bytes; three at most. from is as in [Receipts].
func FindReceipts(tx *row.Tx, from, name string) ([]Receipt, error) {
	if len(name) < MinPrefix {
		return nil, fmt.Errorf("a name of %d bytes: %w", len(name), row.ErrInvalid)
	}
	query := OfRequest(from)
	if strings.HasPrefix(name, receiptPrefix) {
		query = OfReceipt(from)
	}
	return list(tx, query, name, name+"\U0010ffff")
}

func list(tx *row.Tx, query string, args ...any) (all []Receipt, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("list receipts: %w", err)
	}
	defer rows.Close()

	for rows.Next() {
		var r Receipt
		var order int64
		if err := rows.Scan(&r.RequestID, &r.ReceiptID, &r.Doc, &order); err != nil {
			return nil, fmt.Errorf("list receipts: %w", err)
		}
		all = append(all, r)
	}

	return all, rows.Err()
}
