package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bip21"
	"github.com/lightwork-market/lightwork/receipts"
)

// ChainPlanner reads the address of a refund on the chain and says what a payment
// to it costs now. Its errors: payments.ErrBadRequest, ErrSelfPayment,
// ErrAlreadyPaid, ErrNoRoute (the miners ask for too much), ErrUnauthorized.
type ChainPlanner interface {
	PlanRefund(ctx context.Context, address string) (payments.ChainPlan, error)
}

const (
	// leastOnChain is the least that a refund on the chain sends: the highest of
	// the dust limits of output types.
	leastOnChain = 546 * msatsPerSat
	// minersShare of what is owed is the most that a refund on the chain costs:
	// 1/4. Below it is worth more as credit.
	minersShare = 4
	// leastAtOnce is sent without the operator, however little the job costs.
	leastAtOnce = 1_000_000 * msatsPerSat
)

// mostAtOnce is the most that is sent on the chain without the operator: as much
// as the job costs. Who pays late or too much chooses how much that is, and has it
// back in other coins after confirmations that were chosen for prices; a
// reorganisation would then cost us what we have, and not a job.
func mostAtOnce(job Job) int64 { return max(job.PriceMsats, leastAtOnce) }

// refundAddress is the address on the chain that a request names for a refund, as
// the wallet writes it; "" if there is none, or none that could be paid.
func (p *Provider) refundAddress(view nostr.Event, mode receipts.Mode) string {
	if p.cfg.Refunds == nil || p.cfg.Refunds.Chain == nil || mode != receipts.ModePrepay {
		return ""
	}
	u, err := bip21.Parse(refundParam(view), p.node.Network)
	if err != nil {
		return ""
	}
	return u.Address
}

// planOnChain makes the attempt to send what is owed to an address. The miners'
// fee is ours where the failure is, and within the limit; else it comes off what
// is sent: who pays late or in part could have us pay miners for ever.
func (p *Provider) planOnChain(ctx context.Context, b payBack) (*Refund, error) {
	plan, err := p.cfg.Refunds.Chain.PlanRefund(ctx, b.to)
	if err != nil {
		return nil, p.noPlan(err)
	}
	owed := b.owed
	if b.atOnce > 0 {
		owed = min(owed, b.atOnce)
	}
	owed -= owed % msatsPerSat
	sent, limit := owed, b.feeLimit(owed)
	if plan.FeeMsats > limit {
		sent, limit = owed-plan.FeeMsats, plan.FeeMsats
	}
	if sent < leastOnChain || plan.FeeMsats > owed/minersShare {
		return nil, fmt.Errorf("the miners would take about %d msats of it", plan.FeeMsats)
	}
	text := bip21.URI{Address: plan.Address, Sats: sent / msatsPerSat}.String()
	return &Refund{BOLT11: text, PaymentHash: plan.Hash, Msats: owed, FeeLimitMsats: limit, Wallet: p.node.Wallet()}, nil
}

// noPlan is what the buyer is told; the wallet's own words are ours.
func (p *Provider) noPlan(err error) error {
	switch {
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
		p.log.Error("the wallet may not send refunds; lightwork wallet permissions --chain --role refunds prints a macaroon that may", "err", err)
		return errRefundsOff
	case errors.Is(err, payments.ErrBadRequest):
		return errors.New("its refund address cannot be read: a segwit address of this chain is needed")
	case errors.Is(err, payments.ErrSelfPayment):
		return errors.New("its refund address is one of ours")
	case errors.Is(err, payments.ErrAlreadyPaid):
		return errors.New("its refund address was paid before")
	case errors.Is(err, payments.ErrNoRoute):
		return errors.New("the miners ask for too much now")
	}
	p.log.Warn("a refund on the chain cannot be planned now", "err", err)
	return errors.New("the wallet does not answer now")
}

// unused is what was taken from the credit for the miners and not needed.
func unused(r Refund, pay payments.Payment) int64 {
	return max(0, r.Msats-r.SentMsats()-pay.FeeMsats)
}

// place names where a refund goes, for people.
func place(r Refund) string {
	if bip21.Is(r.BOLT11) {
		return "refund address"
	}
	return "refund invoice"
}

// refundCredit begins the refund of what was recorded as credit first: on the
// chain, what came late or beyond the price. What has had an attempt already stays
// credit, since the address is used. If we die before the attempt is recorded it
// stays credit too, and the operator may have it paid.
func (p *Provider) refundCredit(ctx context.Context, requestID string) {
	if p.cfg.Refunds == nil || p.cfg.Refunds.Chain == nil {
		return
	}
	d, err := p.debt(ctx, requestID)
	if errors.Is(err, ErrNotFound) || err == nil && (d.RefundTo == "" || d.Refund != nil) {
		return
	}
	var job Job
	if err == nil {
		job, err = p.cfg.Store.Job(ctx, requestID)
	}
	var r *Refund
	if err == nil {
		owed := min(d.LeftMsats(), d.CreditMsats)
		r, err = p.planRefund(ctx, payBack{to: d.RefundTo, owed: owed, atOnce: mostAtOnce(job), feeLimit: func(int64) int64 { return 0 }})
	}
	if err == nil {
		r.RequestID, r.Buyer = d.RequestID, d.Buyer
		_, err = p.cfg.Store.RetryRefund(ctx, *r)
	}
	if err != nil {
		p.log.Warn("what is owed stays credit", "request", requestID, "err", err)
		return
	}
	p.refundsWake()
}
