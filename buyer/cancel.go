package buyer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/payments"
)

// Cancel asks the provider to stop. What happens to the money is then the
// provider's word (the quote's cancellation) and, with a held payment, the
// wallet's: Follow goes on until that is known.
func (c *Client) Cancel(ctx context.Context, requestID string) error {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State.Terminal() {
		return fmt.Errorf("purchase is already %s: %w", p.State, ErrConflict)
	}

	ev, raw, err := c.author.Deletion(ctx, p.RequestID, p.Provider, "job canceled by the buyer")
	if err != nil {
		return err
	}
	if err := c.cfg.Store.SetCancel(ctx, requestID, raw); err != nil {
		return fmt.Errorf("store cancellation: %w", err)
	}
	if err := c.cfg.Market.Send(ctx, ev); err != nil {
		return fmt.Errorf("publish cancellation: %w", err)
	}

	if p.State == StateRequested {
		err := c.cfg.Store.CloseUnpaid(ctx, requestID, StateCanceled, p.CanceledText())
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}

	return nil
}

// ErrWalletHere: the wallet that pays for the purchase is the configured one, so it
// can be asked.
var ErrWalletHere = errors.New("the wallet that pays for it is the configured one, which can be asked")

// GiveUp takes a purchase off the open ones whose payment only a wallet can tell of
// that is lost for good, or has lost its records of it. That it is lost is the word of whoever calls: the payment
// may have gone through, or go through yet. So it stays begun, all that it may cost
// stays reserved of that day's budget, and nothing is paid in its place. The
// provider is asked to stop. Once the same wallet is configured again, Follow goes on.
func (c *Client) GiveUp(ctx context.Context, requestID string) error {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State != StatePaying {
		return fmt.Errorf("no payment of it is under way, it is %s: %w", p.State, ErrConflict)
	}

	due, _ := p.Due()
	lost, err := c.payer.Lost(ctx, *due)
	if err != nil {
		return err
	}
	if !lost {
		return ErrWalletHere
	}

	if err := c.Cancel(ctx, requestID); err != nil {
		c.log.Warn("the provider was not asked to stop", "request", requestID, "err", err)
	}
	return c.cfg.Store.GiveUp(ctx, requestID, fmt.Sprintf("the wallet that pays for it is lost, its buyer says: %d msats stay reserved of %s",
		due.AmountMsats+due.FeeLimitMsats, due.ReservedAt.UTC().Format("2006-01-02")))
}

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
		pay, err := c.payer.Now(ctx, *p.Engagement.Attempt)
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
