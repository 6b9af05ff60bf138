package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/market/job"
)

// ErrAmbiguous: several jobs or purchases begin with the given characters.
var ErrAmbiguous = errors.New("several begin with that; give more characters")

const (
	minPrefix = 6
	// receiptPrefix is that of receipt ids; a request's are hex digits.
	receiptPrefix = "rcpt_"
)

// FindJob resolves the beginning of a request id or of a receipt id ("rcpt_..."),
// at least 6 hex digits of it. ErrAmbiguous if several fit.
func (s *ProviderStore) FindJob(ctx context.Context, prefix string) (j job.Job, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		id, err := tx.beginsWith(prefix, jobsNamed, jobsOfReceipt, job.ErrNotFound)
		if err != nil {
			return err
		}
		j, err = tx.job(id)
		return err
	})
	return j, err
}

// FindPurchase resolves the beginning of a request id or of a receipt id
// ("rcpt_..."), at least 6 hex digits of it. ErrAmbiguous if several fit.
func (s *BuyerStore) FindPurchase(ctx context.Context, prefix string) (p buyer.Purchase, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		id, err := tx.beginsWith(prefix, purchasesNamed, purchasesOfReceipt, buyer.ErrNotFound)
		if err != nil {
			return err
		}
		p, err = tx.purchase(id)
		return err
	})
	return p, err
}

const (
	jobsNamed          = "SELECT request_id FROM requests" + ofRequest + firstTwo
	jobsOfReceipt      = "SELECT DISTINCT request_id FROM receipts" + ofReceipt + firstTwo
	purchasesNamed     = "SELECT request_id FROM purchases" + ofRequest + firstTwo
	purchasesOfReceipt = "SELECT DISTINCT request_id FROM purchase_receipts" + ofReceipt + firstTwo
	firstTwo           = " LIMIT 2"

	// CROSS: otherwise all that ever were are gone through, to have them in order.
	openJobIDs        = "SELECT o.request_id FROM open_jobs o CROSS JOIN requests r ON r.request_id = o.request_id ORDER BY r.seq"
	unknownPaymentIDs = "SELECT o.request_id FROM unknown_payments o CROSS JOIN requests r ON r.request_id = o.request_id ORDER BY r.seq"
	openPurchaseIDs   = "SELECT o.request_id FROM open_purchases o CROSS JOIN purchases p ON p.request_id = o.request_id ORDER BY p.seq"
)

// beginsWith is the one request whose id, or whose receipt's, begins with prefix.
func (tx *Tx) beginsWith(prefix, byRequest, byReceipt string, notFound error) (string, error) {
	query := byRequest
	digits, isReceipt := strings.CutPrefix(prefix, receiptPrefix)
	if isReceipt {
		query = byReceipt
	}
	if len(digits) < minPrefix || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not at least %d hex digits of an id: %w", prefix, minPrefix, notFound)
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
