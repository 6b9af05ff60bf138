package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// DebtView is a debt as --json shows it.
type DebtView struct {
	RequestID   string    `json:"request_id"`
	Buyer       string    `json:"buyer"`
	OwedMsats   int64     `json:"owed_msats"`
	Since       time.Time `json:"since"`
	RefundTo    string    `json:"refund_to,omitempty"`
	Refund      string    `json:"refund"` // none, open, succeeded or failed
	RefundMsats int64     `json:"refund_msats,omitempty"`
	FeeMsats    int64     `json:"refund_fee_msats,omitempty"`
	Sent        int       `json:"refund_sent,omitempty"` // how often the wallet was told
	PaymentHash string    `json:"refund_payment_hash,omitempty"`
	Preimage    string    `json:"refund_preimage,omitempty"`
	Outpoint    string    `json:"refund_outpoint,omitempty"` // on the chain, in place of the preimage
	Reason      string    `json:"refund_reason,omitempty"`
	// Attempts are all there were, the last too, where there was more than one.
	Attempts   []attemptView `json:"refund_attempts,omitempty"`
	WrittenOff int64         `json:"written_off_msats,omitempty"`
	Note       string        `json:"written_off_note,omitempty"`
	// CreditMsats is what the buyer can still use here, of all its debts.
	CreditMsats int64 `json:"buyer_credit_msats"`
}

// ViewOfDebt is a debt as --json shows it.
func ViewOfDebt(d provider.Debt) DebtView {
	v := DebtView{
		RequestID: d.RequestID, Buyer: d.Buyer, OwedMsats: d.Msats, Since: d.At, RefundTo: d.RefundTo,
		Refund: "none", CreditMsats: d.CreditMsats,
	}
	if d.WriteOff != nil {
		v.WrittenOff, v.Note = d.WriteOff.Msats, d.WriteOff.Note
	}
	r := d.Refund
	if r == nil {
		return v
	}
	if len(d.Attempts) > 1 {
		v.Attempts = viewsOfAttempts(d.Attempts)
	}
	v.Refund, v.RefundMsats, v.PaymentHash, v.Sent = "open", r.SentMsats(), r.PaymentHash.String(), r.Sent
	if r.End != nil {
		v.Refund, v.FeeMsats, v.Reason = string(r.End.State), r.End.FeeMsats, r.End.Reason
		v.Outpoint = r.End.Outpoints
		if r.End.State == payments.PaymentSucceeded && v.Outpoint == "" {
			v.Preimage = r.End.Preimage.String()
		}
	}

	return v
}

// What says in a line what became of the debt.
func (v DebtView) What() string {
	if v.WrittenOff > 0 {
		return display.Msats(v.WrittenOff) + " settled otherwise: " + display.OneLine(v.Note)
	}

	switch v.Refund {
	case "open":
		if v.Sent > 1 {
			return display.Msats(v.RefundMsats) + " perhaps sent back: the wallet was told twice, and the outcome is not known"
		}
		return display.Msats(v.RefundMsats) + " on their way back"
	case string(payments.PaymentSucceeded):
		return strings.TrimSpace(display.Msats(v.RefundMsats) + " sent back, fee " + display.Msats(v.FeeMsats) + " " + v.Outpoint)
	case string(payments.PaymentFailed):
		if n := len(v.Attempts); n > 1 {
			return fmt.Sprintf("credit; %d refunds failed, the last: %s", n, display.OneLine(v.Reason))
		}
		return "credit; the refund failed: " + display.OneLine(v.Reason)
	}

	return "credit"
}

// debtOf finds the debt of one job; nil if there is none.
func debtOf(ctx context.Context, store *node.Sales, requestID string) (*DebtView, error) {
	d, err := store.DebtOf(ctx, requestID)
	if err != nil || d == nil {
		return nil, err
	}
	v := ViewOfDebt(*d)
	return &v, nil
}

// attemptView is one attempt to pay a debt, as --json shows it.
type attemptView struct {
	Attempt     int    `json:"attempt"`
	State       string `json:"state"` // open, succeeded or failed
	Msats       int64  `json:"msats"`
	PaymentHash string `json:"payment_hash"`
	Reason      string `json:"reason,omitempty"`
	EndedAt     string `json:"ended_at,omitempty"` // RFC 3339, UTC
}

func viewsOfAttempts(list []provider.Refund) (views []attemptView) {
	for _, r := range list {
		v := attemptView{Attempt: r.Attempt, State: "open", Msats: r.Msats, PaymentHash: r.PaymentHash.String()}
		if r.End != nil {
			v.State, v.Reason, v.EndedAt = string(r.End.State), r.End.Reason, r.End.At.Format(time.RFC3339)
		}
		views = append(views, v)
	}
	return views
}
