package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/provider"
)

// debtOrder is the operator's word on one debt.
type debtOrder struct {
	RequestID string `json:"request_id"`
	To        string `json:"to,omitempty"`
	Note      string `json:"note,omitempty"`
}

// DebtDone is what came of an order of the operator on one debt.
type DebtDone struct {
	RequestID   string `json:"request_id"`
	Msats       int64  `json:"msats"`
	Attempt     int    `json:"attempt,omitempty"`
	PaymentHash string `json:"payment_hash,omitempty"`
}

// Debts are what the running provider of a node owes to buyers whose prepaid jobs
// failed. Only it acts on them: a refund needs its wallet and its relays.
type Debts struct{ c *Node }

// Debts are those of this node.
func (c *Node) Debts() Debts { return Debts{c} }

// Retry has the provider try again to pay a debt: to what to names, or where the last
// attempt went. The error is [host.ErrNoNode] if no provider runs, and a
// [host.CallError] if it refused.
func (d Debts) Retry(ctx context.Context, requestID, to string) (DebtDone, error) {
	return d.order(ctx, retryRefund, debtOrder{RequestID: requestID, To: to})
}

// WriteOff has the provider tell a buyer that a debt was settled by other means. It
// fails as [Debts.Retry] does.
func (d Debts) WriteOff(ctx context.Context, requestID, note string) (DebtDone, error) {
	return d.order(ctx, writeOff, debtOrder{RequestID: requestID, Note: note})
}

func (d Debts) order(ctx context.Context, what string, o debtOrder) (done DebtDone, err error) {
	daemon, err := host.Dial(ctx, d.c.controlSocket())
	if err != nil {
		return done, err
	}
	return done, daemon.Node(ctx, what, o, &done)
}

// The names of the orders on the control socket.
const (
	retryRefund = "retry-refund"
	writeOff    = "write-off"
)

// debtDesk takes the operator's words on debts to the running provider.
type debtDesk struct {
	seller *provider.Provider // set before the control socket is served
}

func (d *debtDesk) calls() map[string]func(context.Context, json.RawMessage) (any, error) {
	order := func(do func(context.Context, debtOrder) (DebtDone, error)) func(context.Context, json.RawMessage) (any, error) {
		return func(ctx context.Context, raw json.RawMessage) (any, error) {
			var o debtOrder
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("read the order: %w", err)
			}
			return do(ctx, o)
		}
	}
	return map[string]func(context.Context, json.RawMessage) (any, error){
		retryRefund: order(func(ctx context.Context, o debtOrder) (DebtDone, error) {
			r, err := d.seller.RetryRefund(ctx, o.RequestID, o.To)
			return DebtDone{RequestID: o.RequestID, Msats: r.Msats, Attempt: r.Attempt, PaymentHash: r.PaymentHash.String()}, err
		}),
		writeOff: order(func(ctx context.Context, o debtOrder) (DebtDone, error) {
			msats, err := d.seller.WriteOff(ctx, o.RequestID, o.Note)
			return DebtDone{RequestID: o.RequestID, Msats: msats}, err
		}),
	}
}
