package provider

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A wallet can make an invoice and then say nothing more of it. The job does not wait
// for it without end, and what came for it is not forgotten: the job ends with
// CodePaymentUnknown, and from then on the wallet is asked, in each life of the node,
// until it answers.

// listen notes since when the wallet has not answered about a job's invoices.
func (p *Provider) listen(ctx context.Context, job Job, err error) {
	sig := p.signalOf(job)
	switch {
	case err == nil:
		sig.silentSince = time.Time{}
	case ctx.Err() == nil && sig.silentSince.IsZero():
		sig.silentSince = time.Now()
	}
}

// silent reports that the job is not to wait any longer for a wallet that does not
// answer: it can be paid for no more, and what was held has gone back, or was taken.
func (p *Provider) silent(job Job) bool {
	since := p.signalOf(job).silentSince
	if since.IsZero() || time.Since(since) < p.limits.Silence {
		return false
	}
	over := job.ExpiresAt
	if pay := job.Payment; pay != nil && pay.SettleBy.After(over) {
		over = pay.SettleBy
	}
	return time.Since(over) >= p.limits.Silence
}

// giveUp ends a job of which the wallet does not say whether it was paid for.
func (p *Provider) giveUp(ctx context.Context, job Job, to State) error {
	p.log.Error("a job is given up: the wallet does not say whether it was paid for; it is asked again until it does", "request", job.RequestID,
		"payment_hash", job.PaymentHash.String())
	return p.close(ctx, job, to, because(CodePaymentUnknown, "the provider's wallet does not answer; what came for the job is owed once it does"))
}

// awaitAnswer asks the wallet of a job that was given up until it answers. What is
// not paid then is cancelled, and what is paid is owed.
func (p *Provider) awaitAnswer(ctx context.Context, job Job, sig *jobSignal) {
	p.gate.Leave(job.RequestID)

	for pause := time.Second; ; pause = min(2*pause, 10*p.limits.LookupEvery) {
		err := p.answer(ctx, job)
		if err == nil || ctx.Err() != nil {
			return
		}
		p.log.Warn("ask the wallet of a job that was given up, trying again", "request", job.RequestID, "in", pause, "err", err)
		p.storeTrouble(err)

		select {
		case <-sig.wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (p *Provider) answer(ctx context.Context, job Job) error {
	came := feeOwed(job, job.Reason.Code)
	for _, c := range invoiced(job) {
		msats, err := p.moneyBack(ctx, job, c)
		if err != nil {
			return fmt.Errorf("invoice %s: %w", c.PaymentHash, err)
		}
		came += msats
	}
	return p.owe(ctx, job, came)
}

// invoiced are the charges that a job's buyer was asked for, but for an engagement fee
// that was paid for good.
func invoiced(job Job) []*Charge {
	return slices.DeleteFunc(job.Charges(), func(c *Charge) bool { return !c.IsInvoiced() })
}
