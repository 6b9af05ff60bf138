package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// EndFee ends a purchase that was dropped while its engagement fee was under way, if
// the wallet knows by now what became of that. Otherwise the purchase stays open, to
// be looked at another time: a provider that holds on to a payment must not hold up
// others.
func (c *Client) EndFee(ctx context.Context, requestID string) error {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil || p.State.Terminal() {
		return err
	}
	if p.State == StatePaying && p.Attempt == nil && p.Engagement != nil && c.cfg.Wallet != nil {
		pay, err := c.feeOutcome(ctx, *p.Engagement.Attempt)
		switch {
		case err != nil:
			return fmt.Errorf("engagement fee of %s: %w", requestID, err)
		case pay.State == payments.PaymentFailed:
			return c.cfg.Store.Unpaid(ctx, requestID, pay, StateFailed, "not taken by the panel; the engagement fee came back: "+pay.FailureReason)
		case pay.State != payments.PaymentSucceeded:
			c.log.Warn("engagement fee of a dropped purchase is still under way", "request", requestID, "payment_hash", pay.Hash)
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
func (c *Client) feeOutcome(ctx context.Context, a Attempt) (payments.Payment, error) {
	pay, err := c.cfg.Wallet.LookupPayment(ctx, a.PaymentHash)
	unsure := err == nil && a.failureUnsure(pay)
	if !errors.Is(err, payments.ErrNotFound) && !unsure {
		return pay, err
	}
	pay = payments.Payment{Hash: a.PaymentHash, State: payments.PaymentInFlight, AmountMsats: a.AmountMsats}
	if a.Sent == 0 && time.Since(a.ReservedAt) > feeGone && c.begunHere(ctx, a) == nil {
		pay.State, pay.FailureReason = payments.PaymentFailed, "it was never sent"
	}
	return pay, nil
}
