package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// begin waits for a free slot and runs the job.
func (p *Provider) begin(ctx context.Context, job Job, sig *jobSignal) error {
	deadline, reason, err := p.deadline(ctx, job, sig)
	if err != nil {
		return err
	}
	if reason.Code == CodeRestored {
		return p.closeDelivered(ctx, job)
	}
	if reason.Code != "" {
		return p.giveBack(ctx, job, StateFailed, reason)
	}
	if job.Run >= p.limits.Runs {
		return p.giveBack(ctx, job, StateFailed, because(CodeNodeRestart, fmt.Sprintf("no run of %d lasted", job.Run)))
	}

	if delivered, err := p.deliveredBefore(ctx, job, deadline); err != nil {
		return err
	} else if delivered {
		return p.closeDelivered(ctx, job)
	}

	if !time.Now().Before(deadline) { // after an outage, say
		return p.giveBack(ctx, job, StateFailed, because(CodeDeadline, "the job's deadline passed"))
	}
	wait, stop := context.WithDeadline(ctx, deadline)
	defer stop()

	select {
	case <-sig.cancel: // before a slot that is free too
		return p.giveBack(ctx, job, StateCanceled, because(CodeCanceled, "by the buyer, before the run"))
	default:
	}

	leave, got := p.gate.Slot(wait, job, sig.cancel)
	switch {
	case got:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() == nil:
		return p.giveBack(ctx, job, StateCanceled, because(CodeCanceled, "by the buyer, before the run"))
	default:
		return p.giveBack(ctx, job, StateFailed, because(CodeDeadline, "no free slot in time"))
	}

	err = p.run(wait, job, sig, deadline)
	leave()
	if v := (*verdict)(nil); errors.As(err, &v) {
		return p.conclude(ctx, v)
	}
	return err
}

// deliveredBefore asks what the relays know of the job, until its deadline. A
// restored database can be older than the deadlines in it: then a while longer,
// since what was delivered and paid must not be paid back.
func (p *Provider) deliveredBefore(ctx context.Context, job Job, deadline time.Time) (bool, error) {
	until := deadline
	if now := time.Now(); !now.Before(deadline) {
		until = now.Add(p.limits.QuoteTTL)
	}
	asking, stop := context.WithDeadline(ctx, until)
	defer stop()
	delivered, err := p.restored.IsReceipted(asking, job.RequestID, receipts.PurposeResult)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil && delivered, nil
}

// runMargin is what a run gets beyond the request's own limit, for starting
// and stopping the agent.
const runMargin = 30 * time.Second

// deadline is the job's one deadline: the least of all that bounds the work
// (K-24). It was decided as the first run started, or it is now: from the time to
// wait for a slot, the request's own limit, and how long the payment is held.
// The wallet is asked each time: the held payment may be gone since, or be lost
// sooner than it said.
func (p *Provider) deadline(ctx context.Context, job Job, sig *jobSignal) (time.Time, Reason, error) {
	limit, err := sig.limitOf(job)
	if err != nil {
		return time.Time{}, because(CodeInternal, "stored request unreadable"), nil
	}
	end := job.Deadline
	if end.IsZero() {
		end = p.startBy(job).Add(limit + runMargin)
	}
	if job.Mode != receipts.ModeHold {
		return end, Reason{}, nil
	}
	inv, err := p.jobInvoice(ctx, job, job.PaymentHash)
	if err != nil {
		return time.Time{}, Reason{}, fmt.Errorf("look up held invoice: %w", err)
	}
	if inv.State == payments.InvoiceSettled {
		return time.Time{}, Reason{Code: CodeRestored}, nil
	}
	if inv.State != payments.InvoiceHeld {
		return time.Time{}, because(CodePaymentLost, "the held payment is "+string(inv.State)), nil
	}

	held := inv.SettleBy.Add(-p.limits.HoldMargin)
	if time.Until(held) < limit {
		return time.Time{}, because(CodeDeadline, "the payment cannot be held long enough"), nil
	}
	return earlier(end, held), Reason{}, nil
}

// startBy is when a job that has not begun is waited for no longer: counted from
// what the store has, so that a restart gives no time.
func (p *Provider) startBy(job Job) time.Time {
	if job.State != StateQuoted { // paid then
		return job.StateAt.Add(p.limits.QuoteTTL)
	}
	by := job.AddedAt.Add(p.limits.QuoteTTL)
	if job.Engagement != nil { // as long after the fee as without one
		by = by.Add(p.limits.QuoteTTL)
	}
	return earlier(by, job.ExpiresAt)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
