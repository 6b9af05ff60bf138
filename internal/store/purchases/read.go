package purchases

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Purchase returns a purchase as it stands.
func (s *Store) Purchase(ctx context.Context, requestID string) (p buyer.Purchase, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		p, err = tx.purchase(requestID)
		return err
	})
	return p, err
}

// Purchases lists purchases, newest first; at most limit if limit > 0.
func (s *Store) Purchases(ctx context.Context, limit int) (list []buyer.Purchase, err error) {
	if limit <= 0 {
		limit = -1
	}
	err = s.view(ctx, func(tx *transaction) error {
		ids, err := tx.Strings("SELECT request_id FROM purchases ORDER BY seq DESC LIMIT ?", limit)
		if err != nil {
			return fmt.Errorf("list purchases: %w", err)
		}

		for _, id := range ids {
			p, err := tx.purchase(id)
			if err != nil {
				return err
			}
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// OpenPurchases lists the ids of purchases that have not ended, oldest first.
func (s *Store) OpenPurchases(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		ids, err = tx.Strings(openPurchaseIDs)
		return err
	})
	return ids, err
}

func (tx *transaction) purchase(id string) (buyer.Purchase, error) {
	p := buyer.Purchase{RequestID: id}
	var (
		relays    string
		added, at int64
		payee     sql.NullString
		output    hashing.Digest
		early     sql.NullBool
	)
	err := tx.QueryRow(`
		SELECT p.provider, p.schema_id, p.job_hash, p.request, p.max_msats, p.relays, p.payee_node, p.added_ms,
			c.state, c.reason, c.at_ms, x.event, r.event, r.output, r.early, b.event, o.request_id IS NOT NULL, h.tags, coalesce(m.msats, 0), coalesce(e.max_msats, 0), i.events
		FROM purchases p JOIN purchase_current c ON c.request_id = p.request_id
			LEFT JOIN purchase_cancels x ON x.request_id = p.request_id
			LEFT JOIN purchase_results r ON r.request_id = p.request_id
			LEFT JOIN purchase_sealed b ON b.request_id = p.request_id
			LEFT JOIN purchase_plain o ON o.request_id = p.request_id
			LEFT JOIN purchase_hidden h ON h.request_id = p.request_id
			LEFT JOIN purchase_refunds m ON m.request_id = p.request_id
			LEFT JOIN purchase_engagements e ON e.request_id = p.request_id
			LEFT JOIN purchase_inputs i ON i.request_id = p.request_id
		WHERE p.request_id = ?`, id).
		Scan(&p.Provider, &p.SchemaID, row.Into(&p.JobHash), &p.Request, &p.MaxMsats, &relays, &payee, &added,
			&p.State, &p.Reason, &at, &p.Cancel, &p.ResultEvent, row.Into(&output), &early, &p.SealedEvent, &p.Plain, &p.Hidden, &p.RefundMsats, &p.EngagementMax, &p.Inputs)
	if err != nil {
		return p, row.NotFound(err, "purchase "+id)
	}
	p.PayeeNode, p.SettledTooEarly = payee.String, early.Bool
	p.AddedAt, p.StateAt = row.FromMs(added), row.FromMs(at)
	if err := json.Unmarshal([]byte(relays), &p.Relays); err != nil {
		return p, fmt.Errorf("read purchase %s: %w", id, err)
	}
	if p.ResultEvent != nil {
		if p.Output, err = tx.Content(output); err != nil {
			return p, fmt.Errorf("read result of purchase %s: %w", id, err)
		}
	}

	if p.Member, err = tx.membership(id); err != nil {
		return p, fmt.Errorf("read panel of purchase %s: %w", id, err)
	}
	if err := tx.purchaseMoney(&p); err != nil {
		return p, fmt.Errorf("read payment of purchase %s: %w", id, err)
	}

	return p, nil
}

// purchaseMoney reads what is paid for the result and for the attempt at it.
func (tx *transaction) purchaseMoney(p *buyer.Purchase) error {
	fee, err := tx.purchaseCharge(p.RequestID, receipts.PurposeEngagement)
	if err != nil {
		return err
	}
	if fee.Attempt != nil {
		p.Engagement = &fee
	}

	if p.Charge, err = tx.purchaseCharge(p.RequestID, receipts.PurposeResult); err != nil {
		return err
	}
	if p.Payment != nil && p.Payment.State == payments.PaymentSucceeded && p.State == buyer.StateFailed && p.ResultEvent == nil && p.SealedEvent == nil {
		p.SettledTooEarly = true // and nothing came for it
	}
	return nil
}

// purchaseCharge reads what is paid for a purpose; its attempt is nil before an offer was
// accepted.
func (tx *transaction) purchaseCharge(requestID string, purpose receipts.Purpose) (c buyer.Charge, err error) {
	var receiptID sql.NullString
	err = tx.QueryRow("SELECT event, receipt_id FROM purchase_receipts WHERE request_id = ? AND purpose = ?", requestID, string(purpose)).
		Scan(&c.ReceiptEvent, &receiptID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, err
	}
	c.ReceiptID = receiptID.String

	err = tx.ReadAttempt(requestID, purpose, &c)
	return c, err
}
