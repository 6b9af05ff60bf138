package provider

import (
	"context"
	"slices"

	"github.com/lightwork-market/lightwork/receipts"
)

// Keys cost nothing, so of every number of places that all buyers share a part
// is kept for those who gave something: the others, together, take at most
// forStrangers of n. Of two places one is kept; of one none can be.
func forStrangers(n int) int {
	if n < 2 {
		return n
	}
	return n - max(1, n/4)
}

// customer reports whether a key has the places that strangers do not get: it has
// paid here, or the operator chose who may buy. Where nothing costs anything there
// are no payers to keep places for, and all are alike.
func (p *Provider) customer(ctx context.Context, key string) (bool, error) {
	sold := slices.ContainsFunc(p.cfg.Offers, func(o Offer) bool {
		return slices.ContainsFunc(o.Modes, func(m receipts.Mode) bool { return m != receipts.ModeFree })
	})
	if a := p.cfg.Access; !sold || len(a.Allow) > 0 || a.Trust != TrustNobody {
		return true, nil
	}
	return p.cfg.Store.HasPaid(ctx, key)
}

// isCustomer is customer for what is only a courtesy.
func (p *Provider) isCustomer(ctx context.Context, key string) func() bool {
	return func() bool {
		known, err := p.customer(ctx, key)
		return err == nil && known
	}
}

// place waits for one of the places to run, as [Provider.slots] has them. A job
// that nothing was paid for takes one of the strangers' first, so that however
// many of them wait or run, and however long, who paid gets the next of the others.
func (p *Provider) place(ctx context.Context, job Job, cancel <-chan struct{}) (leave func(), got bool) {
	needs := []chan struct{}{p.slots}
	if unproven(job.Mode, job.Engagement != nil) {
		if known, err := p.customer(ctx, job.Buyer); err != nil || !known {
			needs = []chan struct{}{p.strangers, p.slots}
		}
	}
	for i, places := range needs {
		select {
		case places <- struct{}{}:
			continue
		case <-cancel:
		case <-ctx.Done():
		}
		release(needs[:i])
		return nil, false
	}
	return func() { release(needs) }, true
}

// unproven reports a job that is worked on before anything is paid for it.
func unproven(mode receipts.Mode, fee bool) bool { return !paysFirst(mode) && !fee }
