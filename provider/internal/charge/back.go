package charge

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// Money on the chain can come in part, late, or in excess, and nobody can refuse
// it: whatever is not the price of a job is owed to its buyer, and the buyer is
// told.

// GiveBack cancels the job's invoices, and returns what came for them all the same. Each
// part may be repeated. Hold: the payment is cancelled, which costs nobody anything.
// Prepay: what was received is owed to the buyer.
func (b *Bill) GiveBack(ctx context.Context) (cameMsats int64, err error) {
	for _, c := range b.job.Charges() {
		if !c.IsInvoiced() {
			continue
		}
		came, err := b.cancel(ctx, c)
		if err != nil {
			return 0, fmt.Errorf("invoice for the %s: %w", c.Purpose, err)
		}
		cameMsats += came
	}
	return cameMsats, nil
}

// cancel cancels an invoice, and returns what is owed where it was settled
// before that. A held payment goes back with the cancellation.
func (b *Bill) cancel(ctx context.Context, c *job.Charge) (cameMsats int64, err error) {
	inv, err := b.final(ctx, c.PaymentHash)
	if err != nil {
		return 0, fmt.Errorf("look up invoice: %w", err)
	}
	if inv.State != payments.InvoiceSettled && inv.State != payments.InvoiceCanceled {
		err := b.cfg.Wallet.CancelInvoice(ctx, c.PaymentHash)
		b.heard(ctx, err)
		if errors.Is(err, payments.ErrUnsupported) && b.isUntold(c) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("cancel invoice: %w", err)
		}
		if inv, err = b.final(ctx, c.PaymentHash); err != nil {
			return 0, fmt.Errorf("look up cancelled invoice: %w", err)
		}
	}

	switch inv.State {
	case payments.InvoicePending: // on the chain; CameFor sees it once it is confirmed
		return 0, nil
	case payments.InvoiceCanceled:
		return b.partlyPaid(inv), nil
	case payments.InvoiceSettled:
		return inv.PaidMsats, nil
	}

	return 0, fmt.Errorf("invoice is still %s after cancelling", inv.State)
}

// isUntold reports whether nobody was told of an invoice: that of postpay goes
// out with the result. Where the wallet cannot cancel it, it is as good as cancelled.
func (b *Bill) isUntold(c *job.Charge) bool { return !b.job.PaidFirst(c) && b.job.Result == nil }

// partlyPaid is what stays with us of an invoice that was not paid in full and in time:
// only on the chain it does not go back.
func (b *Bill) partlyPaid(inv payments.Invoice) int64 {
	if b.cfg.Node().Rail() != payments.RailOnChain {
		return 0
	}
	return inv.PaidMsats
}

// CameFor is what is confirmed of what came on the chain for a job that has ended
// without a receipt, but for an engagement fee that stays paid. Of a job that was
// delivered after the backup that we come from, nothing is.
func (c *Collector) CameFor(ctx context.Context, j *job.Job) (msats int64, err error) {
	if c.cfg.Node().Rail() != payments.RailOnChain || j.State == job.StateSucceeded || j.Reason.Code == job.CodeRestored {
		return 0, nil
	}

	msats = FeeOwed(j, j.Reason.Code)
	for _, of := range j.Charges() {
		if !of.IsInvoiced() {
			continue
		}
		inv, err := c.cfg.Wallet.LookupInvoice(ctx, of.PaymentHash)
		if err != nil {
			return 0, err
		}
		if inv.State.Terminal() {
			msats += inv.PaidMsats
		}
	}
	return msats, nil
}
