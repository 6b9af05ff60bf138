package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
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
	pruneNow    = "prune"
	setDispute  = "dispute"
)

// errNoSale refuses what a provider alone does.
var errNoSale = errors.New("this node sells nothing now")

// disputeOrder is the operator's word that a job is disputed, or no longer.
type disputeOrder struct {
	RequestID string `json:"request_id"`
	Open      bool   `json:"open"`
}

// pruneOrder is the operator's word to prune now.
type pruneOrder struct {
	TrustClock bool `json:"trust_clock"` // the clock is right, however far it has moved
}

// run follows the order. That the clock is not believed is told in the report.
func (o pruneOrder) run(ctx context.Context, stage *retention.Stage) (done retention.Report, err error) {
	if o.TrustClock {
		if err := stage.TrustClock(ctx); err != nil {
			return done, err
		}
	}
	done, err = stage.Run(ctx)
	if done.Clock != nil {
		return done, nil
	}
	return done, err
}

// debtDesk takes the operator's words to the running node: on debts, on disputes, and
// on what is to be pruned now.
type debtDesk struct {
	sale     atomic.Pointer[sale]            // nil while none runs
	market   atomic.Pointer[exchange.Market] // likewise
	prune    *retention.Stage                // set before the control socket is served, as the next
	disputes pruning.Store
}

// removeBlob has the blob servers delete a blob, while the provider runs.
func (d *debtDesk) removeBlob(ctx context.Context, digest hashing.Digest) error {
	m := d.market.Load()
	if m == nil {
		return errors.New("the provider does not run, which asks the blob servers")
	}
	return m.RemoveBlob(ctx, digest)
}

func (d *debtDesk) calls() nodeCalls {
	order := func(do func(context.Context, *provider.Provider, debtOrder) (DebtDone, error)) func(context.Context, json.RawMessage) (any, error) {
		return func(ctx context.Context, raw json.RawMessage) (any, error) {
			var o debtOrder
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("read the order: %w", err)
			}
			s := d.sale.Load()
			if s == nil {
				return nil, errNoSale
			}
			return do(ctx, s.seller, o)
		}
	}

	return nodeCalls{
		retryRefund: order(func(ctx context.Context, seller *provider.Provider, o debtOrder) (DebtDone, error) {
			r, err := seller.RetryRefund(ctx, o.RequestID, o.To)
			return DebtDone{RequestID: o.RequestID, Msats: r.Msats, Attempt: r.Attempt, PaymentHash: r.PaymentHash.String()}, err
		}),
		writeOff: order(func(ctx context.Context, seller *provider.Provider, o debtOrder) (DebtDone, error) {
			msats, err := seller.WriteOff(ctx, o.RequestID, o.Note)
			return DebtDone{RequestID: o.RequestID, Msats: msats}, err
		}),
		pruneNow: func(ctx context.Context, raw json.RawMessage) (any, error) {
			var o pruneOrder
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("read the order: %w", err)
			}
			return o.run(ctx, d.prune)
		},
		readPrices: func(ctx context.Context, _ json.RawMessage) (any, error) {
			s := d.sale.Load()
			if s == nil {
				return nil, errNoSale
			}
			return s.reprice(ctx)
		},
		setDispute: func(ctx context.Context, raw json.RawMessage) (any, error) {
			var o disputeOrder
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, fmt.Errorf("read the order: %w", err)
			}
			return o, d.disputes.SetDispute(ctx, o.RequestID, o.Open)
		},
	}
}
