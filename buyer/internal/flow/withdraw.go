package flow

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
)

// Cancel asks the provider to stop. What happens to the money is then the
// provider's word (the quote's cancellation) and, with a held payment, the
// wallet's: Follow goes on until that is known.
func (f *Flow) Cancel(ctx context.Context, requestID string) error {
	p, err := f.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State.Terminal() {
		return fmt.Errorf("purchase is already %s: %w", p.State, purchase.ErrConflict)
	}

	ev, raw, err := f.Author.Deletion(ctx, p.RequestID, p.Provider, "job canceled by the buyer")
	if err != nil {
		return err
	}
	if err := f.Store.SetCancel(ctx, requestID, raw); err != nil {
		return fmt.Errorf("store cancellation: %w", err)
	}
	if err := f.Market.Send(ctx, ev); err != nil {
		return fmt.Errorf("publish cancellation: %w", err)
	}

	if p.State == purchase.StateRequested {
		err := f.Store.CloseUnpaid(ctx, requestID, purchase.StateCanceled, p.CanceledText())
		if err != nil && !errors.Is(err, purchase.ErrConflict) {
			return err
		}
	}

	return nil
}

// ErrWalletHere: the wallet that pays for the purchase is the configured one, so it
// can be asked.
var ErrWalletHere = errors.New("the wallet that pays for it is the configured one, which can be asked")

// GiveUp takes a purchase off the open ones whose wallet is lost for good, or has lost
// its records of the payment. That is the word of whoever calls: the payment may have
// gone through, or may yet. So it stays begun, all that it may cost stays reserved of
// that day's budget, and nothing is paid in its place. The provider is asked to stop.
// Once the same wallet is configured again, following goes on.
func (f *Flow) GiveUp(ctx context.Context, requestID string) error {
	p, err := f.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State != purchase.StatePaying {
		return fmt.Errorf("no payment of it is under way, it is %s: %w", p.State, purchase.ErrConflict)
	}

	due, _ := p.Due()
	lost, err := f.Payer.Lost(ctx, *due)
	if err != nil {
		return err
	}
	if !lost {
		return ErrWalletHere
	}

	if err := f.Cancel(ctx, requestID); err != nil {
		f.Log.Warn("the provider was not asked to stop", "request", requestID, "err", err)
	}
	return f.Store.GiveUp(ctx, requestID, fmt.Sprintf("the wallet that pays for it is lost, its buyer says: %d msats stay reserved of %s",
		due.AmountMsats+due.FeeLimitMsats, due.ReservedAt.UTC().Format("2006-01-02")))
}

// EndFee ends a purchase that was dropped while its engagement fee was under way, if
// the wallet knows by now what became of that. Otherwise the purchase stays open, to
// be looked at another time: a provider that holds on to a payment must not hold up
// others.
func (f *Flow) EndFee(ctx context.Context, requestID string) error {
	p, err := f.Store.Purchase(ctx, requestID)
	if err != nil || p.State.Terminal() {
		return err
	}
	if p.State == purchase.StatePaying && p.Attempt == nil && p.Engagement != nil && f.Payer.Wallet != nil {
		pay, err := f.Payer.Now(ctx, *p.Engagement.Attempt)
		switch {
		case err != nil:
			return fmt.Errorf("engagement fee of %s: %w", requestID, err)
		case pay.State == payments.PaymentFailed:
			return f.Payer.Return(ctx, requestID, pay, purchase.StateFailed, "not taken by the panel; the engagement fee came back: "+pay.FailureReason)
		case pay.State != payments.PaymentSucceeded:
			f.Log.Warn("engagement fee of a dropped purchase is still under way", "request", requestID, "payment_hash", pay.Hash)
			return nil
		}

		if err := f.Payer.Store.Paid(ctx, requestID, pay); err != nil {
			return fmt.Errorf("record engagement fee: %w", err)
		}
		if p, err = f.Store.Purchase(ctx, requestID); err != nil {
			return err
		}
	}

	if p.State != purchase.StateRequested || p.Cancel == nil {
		return nil
	}
	return f.Store.CloseUnpaid(ctx, requestID, purchase.StateFailed, "not paid: not taken by the panel")
}

// Drop ends a purchase that nothing was paid for, with the reason, and tells its
// provider by a cancellation that was signed before. [purchase.ErrConflict] if its payment was
// begun, or it has ended: nothing is stored then.
func (f *Flow) Drop(ctx context.Context, requestID, why string, cancellation []byte) error {
	p, err := f.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State != purchase.StateRequested {
		return fmt.Errorf("drop purchase %s, which is %s: %w", requestID, p.State, purchase.ErrConflict)
	}

	if err := f.Store.SetCancel(ctx, requestID, cancellation); err != nil {
		return fmt.Errorf("keep cancellation: %w", err)
	}
	if err := f.Store.CloseUnpaid(ctx, requestID, purchase.StateFailed, why); err != nil {
		return fmt.Errorf("drop purchase: %w", err)
	}
	return f.SendCancellation(ctx, requestID)
}

// SendCancellation publishes the cancellation that is stored with a purchase, if
// there is one. It spares the provider work; that it arrives is not needed.
func (f *Flow) SendCancellation(ctx context.Context, requestID string) error {
	p, err := f.Store.Purchase(ctx, requestID)
	if err != nil || p.Cancel == nil {
		return err
	}

	ev, err := purchase.EventOf(p.Cancel)
	if err != nil {
		return err
	}
	if err := f.Market.Send(ctx, ev); err != nil {
		f.Log.Warn("a provider was not told that it is not paid", "request", requestID, "err", err)
	}
	return nil
}
