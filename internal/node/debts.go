package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lightwork-market/lightwork/provider"
)

// DebtOrder is the operator's word on one debt, and DebtDone the answer.
type DebtOrder struct {
	RequestID string `json:"request_id"`
	To        string `json:"to,omitempty"`
	Note      string `json:"note,omitempty"`
}

// DebtDone is what came of a [DebtOrder].
type DebtDone struct {
	RequestID   string `json:"request_id"`
	Msats       int64  `json:"msats"`
	Attempt     int    `json:"attempt,omitempty"`
	PaymentHash string `json:"payment_hash,omitempty"`
}

// debtDesk takes the operator's words on debts to the running provider.
type debtDesk struct {
	seller *provider.Provider // set before the control socket is served
}

func (d *debtDesk) calls() map[string]func(context.Context, json.RawMessage) (any, error) {
	order := func(do func(context.Context, DebtOrder) (DebtDone, error)) func(context.Context, json.RawMessage) (any, error) {
		return func(ctx context.Context, raw json.RawMessage) (any, error) {
			var o DebtOrder
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("read the order: %w", err)
			}
			return do(ctx, o)
		}
	}
	return map[string]func(context.Context, json.RawMessage) (any, error){
		"retry-refund": order(func(ctx context.Context, o DebtOrder) (DebtDone, error) {
			r, err := d.seller.RetryRefund(ctx, o.RequestID, o.To)
			return DebtDone{RequestID: o.RequestID, Msats: r.Msats, Attempt: r.Attempt, PaymentHash: r.PaymentHash.String()}, err
		}),
		"write-off": order(func(ctx context.Context, o DebtOrder) (DebtDone, error) {
			msats, err := d.seller.WriteOff(ctx, o.RequestID, o.Note)
			return DebtDone{RequestID: o.RequestID, Msats: msats}, err
		}),
	}
}
