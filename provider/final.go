package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// A wallet may call an invoice settled before the money has come: lnd does as soon
// as it has used the preimage, and can lose the payment then (lnd#7463). What counts
// as paid here is what is final.

const (
	// finalPoll is the least time between two looks at a settled payment that is not
	// final yet. Most are within a few of these.
	finalPoll = 10 * time.Millisecond
	// finalSoon is how long that may take without a word to the operator.
	finalSoon = time.Minute
	// shownWithin is how long a wallet may call an invoice paid and not show the
	// preimage that it chose.
	shownWithin = 5 * time.Second
)

// settling is since when the wallet calls a payment settled that is not final. It
// outlives lookups that fail.
type settling struct {
	hash  payments.Hash
	since time.Time
	told  bool // the operator was
}

// settlingOf is that of a job's payment; its goroutine's own.
func (p *Provider) settlingOf(job Job) *settling {
	return &p.signalOf(job).settling
}

// signalOf is what the job's goroutine keeps; for whoever else asks, nothing.
func (p *Provider) signalOf(job Job) *jobSignal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig := p.wakes[job.RequestID]; sig != nil {
		return sig
	}
	return new(jobSignal)
}

// finalInvoice asks how an invoice of the job's stands. It waits while the wallet calls it
// settled and not final: nothing else can be done about it then, neither cancelling
// nor delivering. A preimage that the wallet chose and does not show yet is waited for
// a moment. With a channel peer that is away, or a channel that is being
// closed, that takes hours; the job is in nobody's way meanwhile.
func (p *Provider) finalInvoice(ctx context.Context, job Job, hash payments.Hash) (payments.Invoice, error) {
	s := p.settlingOf(job)
	for {
		inv, err := p.jobInvoice(ctx, job, hash)
		switch {
		case err != nil:
			return inv, err
		case inv.State != payments.InvoiceSettled || inv.Final && !unshown(&job.Charge, inv):
			*s = settling{}
			return inv, nil
		case s.hash != hash:
			*s = settling{hash: hash, since: time.Now()}
		}

		waited := time.Since(s.since)
		if inv.Final && waited > shownWithin { // it does not show the preimage that it chose
			return inv, nil
		}
		if waited > finalSoon && !s.told {
			s.told = true
			p.gate.Leave(job.RequestID)
			p.log.Warn("the wallet calls a payment settled, and its channel has not settled it yet: waiting", "request", job.RequestID, "payment_hash", hash.String(),
				"hint", "its peer is away, or the channel is being closed: lncli listchannels and lncli pendingchannels show the HTLC")
		}

		select {
		case <-time.After(min(max(waited/4, finalPoll), p.limits.LookupEvery)): // at most a quarter later than it is so
		case <-ctx.Done():
			return payments.Invoice{}, ctx.Err()
		}
	}
}

// underpaid reports that a wallet lost so much of what it had called settled that
// the price is not there.
func underpaid(inv payments.Invoice, priceMsats int64) bool {
	return inv.LostMsats > 0 && inv.PaidMsats < priceMsats
}

// lost ends a job whose payment fell short. What came all the same is the buyer's
// again, unless the result was delivered for it.
func (p *Provider) lost(ctx context.Context, job Job, inv payments.Invoice) error {
	reason := because(CodePaymentLost, fmt.Sprintf("the wallet had called the payment settled, and then %d msats of it went back to the payer", inv.LostMsats))
	owed := feeOwed(job, reason.Code)
	if job.State != StateDelivering {
		owed += inv.PaidMsats
	}
	return p.closeOwing(ctx, job, StateFailed, reason, p.credit(ctx, job, owed))
}
