package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// pay sees the one payment of the purchase through in a goroutine of its own, and
// reports its terminal state.
func (f *Follower) pay(ctx context.Context, p purchase.Purchase) {
	f.g.Go(func() error {
		pay, err := f.Payer.Outcome(ctx, p, f.told, func(why error) {
			select {
			case f.halted <- why:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return err
		}
		select {
		case f.paid <- pay:
		case <-ctx.Done():
		}
		return nil
	})
}

// payment records how the payment ended, and goes on with what waited for it.
func (f *Follower) payment(ctx context.Context, paid payments.Payment) error {
	if paid.State == payments.PaymentFailed {
		f.back = &paid
		if f.heard.reason == "" {
			f.backLong = time.After(wordGrace)
			return nil
		}
		return f.returned(ctx)
	}

	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if err := f.Payer.Record(ctx, p.Purchase, paid); err != nil {
		return err
	}
	due, _ := p.Due()
	fee := due.Purpose == string(receipts.PurposeEngagement)
	if !fee {
		f.paidAt = time.Now()
	}
	what, text := "paid", fmt.Sprintf("fee %d msats", paid.FeeMsats)
	if f.network.Rail() == payments.RailOnChain {
		what, text = "confirmed", text+", "+paid.Outpoints
	}
	f.say("wallet", what, paid.AmountMsats, paid.Hash.String(), text)
	if fee {
		return f.engaged(ctx)
	}

	if p, err = f.view(ctx); err != nil {
		return err
	}
	if err := f.takeReceipts(ctx, p, f.judge.Pending()); err != nil {
		return err
	}
	if p.SealedEvent != nil {
		return f.unseal(ctx, p)
	}
	if f.heard.reason != "" { // it was said before we knew that the money was gone
		return f.refused(ctx, p, f.heard.reason)
	}
	return nil
}

// engaged goes on after the fee for the attempt was paid, with what has come meanwhile:
// the provider may know of the payment before our wallet does.
func (f *Follower) engaged(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	f.heard.began = time.Time{} // its time for the job begins now

	switch {
	case p.Cancel != nil: // meanwhile
		return f.closeCanceled(ctx, p)
	case f.heard.reason != "":
		return f.refused(ctx, p, f.heard.reason)
	}
	if next := f.afterFee; next != nil {
		f.afterFee = nil
		return f.demand(ctx, p, *next)
	}
	return nil
}

// returned ends a purchase whose payment failed for good, with the provider's
// reason where it gave one.
func (f *Follower) returned(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}

	reason := purchase.CodeNoPayment + ": " + f.back.FailureReason
	due, _ := p.Due()
	held := due != nil && time.Since(due.ReservedAt) > pay.Timeout // and not without a route
	switch {
	case f.heard.reason != "":
		reason = f.heard.reason + " (the payment came back)"
	case p.Cancel == nil && held:
		reason = purchase.CodeNoAnswer + ": the payment was held, nothing came for it, and it came back: " + f.back.FailureReason
	}

	f.say("wallet", "payment_failed", f.back.AmountMsats, f.back.Hash.String(), reason)
	if err := f.Payer.Return(ctx, f.id, *f.back, endState(p), reason); err != nil || f.heard.reason != "" {
		return err
	}
	f.Waive(ctx)
	return nil
}

// considerAfterFee keeps an offer of the result that comes while the fee for the attempt
// is under way, for our wallet may learn later than the provider that it is paid.
func considerAfterFee(_ context.Context, f *Follower, p purchase.View, ev nostr.Event) error {
	if p.Attempt == nil && !offer.IsFee(ev.Content) {
		f.afterFee = &ev
	}
	return nil
}

// refusedWhilePaying waits for the wallet: with a held payment the end is what it says.
func refusedWhilePaying(ctx context.Context, f *Follower, _ purchase.View) error {
	if f.back == nil {
		return nil
	}
	return f.returned(ctx)
}

// silentWhilePaying tells that the payment goes on. Only the wallet can end this: a
// wallet that takes the payment for in flight may be right.
func silentWhilePaying(ctx context.Context, f *Follower, p purchase.View) error {
	if f.heard.quiet() <= f.ReceiptTimeout {
		f.takesAsDone(p)
		return nil
	}
	due, _ := p.Due()
	f.say("wallet", "in_flight", due.AmountMsats, due.PaymentHash.String(), f.Payer.Delay(ctx, due.PaymentHash))
	return nil
}

// settleNothing: before the wallet has told how the payment ended, nothing is over.
func settleNothing(context.Context, *Follower, purchase.View) (done bool, err error) {
	return false, nil
}
