package kernel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// purchaseEngagement reads the fee that was accepted for a purchase, nil if none was.
func (tx *Tx) purchaseEngagement(requestID string) (*buyer.Engagement, error) {
	var e buyer.Engagement
	var reserved int64
	var receiptID sql.NullString
	a := &e.Attempt
	err := tx.QueryRow(`SELECT a.purpose, a.payment_hash, a.amount_msats, a.fee_limit_msats, a.rule_id, a.quote, a.bolt11, a.acceptance,
			a.reserved_ms, r.event, r.receipt_id
		FROM attempts a LEFT JOIN purchase_engagement_receipts r ON r.request_id = a.request_id
		WHERE a.request_id = ? AND a.purpose = 'engagement'`, requestID).
		Scan(&a.Purpose, row.Into(&a.PaymentHash), &a.AmountMsats, &a.FeeLimitMsats, &a.RuleID, &e.Quote, &e.BOLT11, &e.Acceptance,
			&reserved, &e.ReceiptEvent, &receiptID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.ReservedAt, e.ReceiptID = row.FromMs(reserved), receiptID.String
	if err := tx.attemptWallet(a); err != nil {
		return nil, err
	}
	e.Payment, err = tx.paymentIn(engagementPayments, requestID)
	return &e, err
}

// SetEngagementReceipt keeps the receipt event of a fee; the first stays.
func (s *BuyerStore) SetEngagementReceipt(ctx context.Context, requestID, receiptID string, event []byte) error {
	return s.update(ctx, func(tx *Tx) error {
		e, err := tx.purchaseEngagement(requestID)
		switch {
		case err != nil:
			return fmt.Errorf("read engagement fee: %w", err)
		case e == nil:
			return fmt.Errorf("purchase %s has no engagement fee: %w", requestID, buyer.ErrConflict)
		case e.ReceiptID != "":
			return nil
		}
		_, err = tx.Exec("INSERT INTO purchase_engagement_receipts(request_id, receipt_id, event, at_ms) VALUES (?, ?, ?, ?)",
			requestID, receiptID, event, tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("keep receipt of the fee: %w", err)
		}
		return tx.Correlate(requestID, journal.NameReceipt, receiptID)
	})
}
