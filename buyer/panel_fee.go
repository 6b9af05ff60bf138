package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// endFee ends a seat that was not taken while its engagement fee was under way, if
// the wallet knows by now what became of that. Otherwise the seat stays open and is
// looked at when the panel is resumed: a provider that holds on to a payment must
// not hold up the result of the others.
func (c *Client) endFee(ctx context.Context, requestID string) error {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil || p.State.Terminal() {
		return err
	}
	if p.State == StatePaying && p.Attempt == nil && p.Engagement != nil && c.cfg.Wallet != nil {
		pay, err := c.feeOutcome(ctx, *p.Engagement)
		switch {
		case err != nil:
			return fmt.Errorf("engagement fee of seat %s: %w", requestID, err)
		case pay.State == payments.PaymentFailed:
			return c.cfg.Store.Unpaid(ctx, requestID, pay, StateFailed, "not taken by the panel; the engagement fee came back: "+pay.FailureReason)
		case pay.State != payments.PaymentSucceeded:
			c.log.Warn("engagement fee of a seat is still under way", "request", requestID, "payment_hash", pay.Hash)
			return nil
		}
		if err := c.cfg.Store.Paid(ctx, requestID, pay); err != nil {
			return fmt.Errorf("record engagement fee: %w", err)
		}
		if p, err = c.cfg.Store.Purchase(ctx, requestID); err != nil {
			return err
		}
	}
	if p.State != StateRequested || p.Cancel == nil {
		return nil
	}
	return c.cfg.Store.CloseUnpaid(ctx, requestID, StateFailed, "not paid: not taken by the panel")
}

// feeGone is when a payment that the wallet does not know was never sent: what we
// last told the wallet has reached it by then, or never will.
const feeGone = 10 * payTimeout

// feeOutcome asks the wallet once.
func (c *Client) feeOutcome(ctx context.Context, e Engagement) (payments.Payment, error) {
	pay, err := c.cfg.Wallet.LookupPayment(ctx, e.Attempt.PaymentHash)
	unsure := err == nil && e.Attempt.failureUnsure(pay)
	if !errors.Is(err, payments.ErrNotFound) && !unsure {
		return pay, err
	}
	pay = payments.Payment{Hash: e.Attempt.PaymentHash, State: payments.PaymentInFlight, AmountMsats: e.Attempt.AmountMsats}
	if e.Attempt.Sent == 0 && time.Since(e.Attempt.ReservedAt) > feeGone && c.begunHere(ctx, e.Attempt) == nil {
		pay.State, pay.FailureReason = payments.PaymentFailed, "it was never sent"
	}
	return pay, nil
}

// feeOf is the engagement fee that a provider announces for a judged or merged job.
func feeOf(l Listing, req *schemas.Request, rule Rule) int64 {
	if !rule.subjective() {
		return 0
	}
	return l.Prices[string(req.SchemaID)].Engagement(req, true)
}

// chosen divides the maximum where all may ask a fee and one is paid its price:
// each seat may take what the fees of the others, with as much again for their
// routing, leave of it.
func (o PanelOrder) chosen(req *schemas.Request) ([]int64, error) {
	parts, fees := make([]int64, len(o.Seats)), int64(0)
	for _, l := range o.Seats {
		fee := feeOf(l, req, o.Rule)
		if fee < 0 || fee > payments.MaxMsats/64 {
			return nil, fmt.Errorf("provider %s announces an engagement fee of %d msats", l.Provider, fee)
		}
		fees += 2 * fee
	}
	for i, l := range o.Seats {
		fee := feeOf(l, req, o.Rule)
		parts[i] = o.MaxMsats - (fees - 2*fee)
		if price, ok := l.Price(req); parts[i] < fee || ok && parts[i] < price+fee {
			return nil, fmt.Errorf("the engagement fees of the %d providers and the price of one are above the maximum of %d msats", len(o.Seats), o.MaxMsats)
		}
	}
	return parts, nil
}
