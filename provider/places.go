package provider

import (
	"context"
	"slices"

	"github.com/lightwork-market/lightwork/receipts"
)

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
func (p *Provider) isCustomer(ctx context.Context, key string) bool {
	known, err := p.customer(ctx, key)
	return err == nil && known
}

// place waits for one of the slots to run. A job that nothing was paid for takes one of
// those that unpaid buyers share.
func (p *Provider) place(ctx context.Context, job Job, cancel <-chan struct{}) (leave func(), got bool) {
	paid := true
	if unproven(job.Mode, job.Engagement != nil) {
		paid = p.isCustomer(ctx, job.Buyer)
	}
	return p.slots.Wait(ctx, cancel, paid)
}

// unproven reports a job that is worked on before anything is paid for it.
func unproven(mode receipts.Mode, fee bool) bool { return !paysFirst(mode) && !fee }
