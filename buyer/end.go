package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/payments"
)

// decline ends a purchase that is asked to pay and does not. ErrConflict if another
// follower of the same purchase pays, or has paid, meanwhile: that one sees it
// through.
func (f *follower) decline(ctx context.Context, p view, code, why string) error {
	why = text.Clean(code + ": " + why)
	if err := f.c.cfg.Store.CloseUnpaid(ctx, p.RequestID, StateFailed, why); err != nil {
		return fmt.Errorf("decline (%s): %w", why, err)
	}
	if f.order == nil {
		f.waive(ctx)
		return nil
	}
	f.order.courtesies.Go(func() { f.waive(f.order.ctx) }) // the next provider need not wait for it
	return nil
}

// courtesyTime is how long the end of a purchase waits for relays that do not answer.
const courtesyTime = 2 * time.Second

// waive tells the provider of a purchase that has ended without a payment that
// none will come: its invoice, and our place among those that it lets stand
// unpaid, are free at once and not when the quote lapses. That is a courtesy, so
// nothing hangs on it.
func (f *follower) waive(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, courtesyTime)
	defer stop()

	p, err := f.view(ctx)
	if err == nil && p.Cancel == nil {
		var ev nostr.Event
		if ev, _, err = f.c.author.Deletion(ctx, p.RequestID, p.Provider, "not paid by the buyer"); err == nil {
			err = f.c.cfg.Market.Send(ctx, ev)
		}
	}

	if err != nil {
		f.c.log.Warn("the provider was not told that nothing will be paid", "request", f.id, "err", err)
	}
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
