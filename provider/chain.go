package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/receipts"
)

// Money on the chain can come in part, late, or in excess, and nobody can refuse
// it: whatever is not the price of a job is owed to its buyer, and the buyer is
// told.

// outpoints are the outputs that paid for a job on the chain; "" on other rails.
func outpoints(job Job) string {
	if job.Payment == nil {
		return ""
	}
	return job.Payment.Outpoints
}

// partlyPaid is what stays with us of an invoice that was not paid in full and in time:
// only on the chain it does not go back.
func partlyPaid(rail payments.Rail, inv payments.Invoice) int64 {
	if rail != payments.RailOnChain {
		return 0
	}
	return inv.PaidMsats
}

// notConfirmed is why a payment that was seen is not waited for any longer.
const notConfirmed = "what came is not confirmed, and may have been replaced; if it is confirmed after all, it is owed"

// unconfirmed reports that a payment which is seen, and not final, is to be given
// up. Past the end of its quote the job is in nobody's way; but it has to end one
// day: of a transaction that was replaced by one to somebody else, lnd may go on
// saying that it waits for a block.
func (p *Provider) unconfirmed(job Job, expires time.Time) bool {
	over := time.Since(expires)
	if over >= 0 {
		p.gate.Leave(job.RequestID)
	}
	return over >= p.limits.Unconfirmed
}

// invoiceExpired ends a job that was not paid for in time.
func (p *Provider) invoiceExpired(ctx context.Context, job Job, c *Charge, inv payments.Invoice) error {
	what := "invoice"
	if c.Purpose == receipts.PurposeEngagement {
		what = "invoice of the engagement fee"
	}
	came := partlyPaid(p.node.Rail(), inv)
	if came == 0 {
		return p.close(ctx, job, StateExpired, because(CodePaymentExpired, "the "+what+" lapsed unpaid"))
	}
	reason := because(CodePaymentExpired, fmt.Sprintf("%d msats of %d came in time", came, c.PriceMsats))
	return p.closeOwing(ctx, job, StateExpired, reason, p.credit(ctx, job, came+feeOwed(job, reason.Code)))
}

// excess is what came for a job on the chain beyond its price in whole satoshi,
// and how the buyer is told.
func (p *Provider) excess(ctx context.Context, job Job) (*Credit, string) {
	if outpoints(job) == "" {
		return nil, ""
	}
	const sat = 1000
	price := (job.PriceMsats + sat - 1) / sat * sat
	owed := p.credit(ctx, job, max(0, job.Payment.PaidMsats-price))
	if owed == nil {
		return nil, ""
	}
	return owed, refund.OwedText(*owed, "more came than the price")
}

// late looks once more at the payments of a job that has ended without a receipt.
// What came on the chain for it or for its attempt, and is confirmed, is owed. Of a
// job that was delivered after the backup that we come from, nothing is.
func (p *Provider) late(ctx context.Context, job Job) {
	if p.node.Rail() != payments.RailOnChain || job.State == StateSucceeded || job.Reason.Code == CodeRestored {
		return
	}
	came, err := p.cameInAll(ctx, job)
	if err != nil {
		p.log.Warn("look for late money", "request", job.RequestID, "err", err)
		return
	}
	if came == 0 {
		return
	}

	if err := p.owe(ctx, job, came); err != nil {
		p.log.Error("record late money", "request", job.RequestID, "msats", came, "err", err)
		p.storeTrouble(err)
	}
}

// owe records what came in all for a job that has ended, of which the buyer is told
// what is new.
func (p *Provider) owe(ctx context.Context, job Job, came int64) error {
	owed := Credit{RequestID: job.RequestID, Buyer: job.Buyer, Msats: came, RefundTo: p.refunds.Target(ctx, job)}
	var out OutEvent
	msats, err := p.cfg.Store.AddLate(ctx, owed, func(msats int64) (_ OutEvent, err error) {
		late := owed
		late.Msats = msats
		out, err = p.pub.Feedback(ctx, publish.BuyerOf(job), "refund", refund.OwedText(late, "it came after the job had ended"), "", refund.OwedTag(owed.Msats))
		return out, err
	})
	if err != nil || msats == 0 {
		return err
	}
	p.tell(DebtEvent{RequestID: job.RequestID, Msats: msats})
	p.pub.Send(out)
	p.log.Warn("money came after the job had ended: it is owed", "request", job.RequestID, "msats", msats)
	p.refunds.Begin(ctx, job.RequestID)
	return nil
}

// cameInAll is what is confirmed of what came for a job that has ended, but for an
// engagement fee that stays paid.
func (p *Provider) cameInAll(ctx context.Context, job Job) (msats int64, err error) {
	msats = feeOwed(job, job.Reason.Code)
	for _, c := range invoiced(job) {
		inv, err := p.cfg.Wallet.LookupInvoice(ctx, c.PaymentHash)
		if err != nil {
			return 0, err
		}
		if inv.State.Terminal() {
			msats += inv.PaidMsats
		}
	}
	return msats, nil
}
