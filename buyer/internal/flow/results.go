package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// result keeps a result that is what it says it is, with its blobs.
func (f *Follower) result(ctx context.Context, p purchase.View, ev nostr.Event) error {
	if p.Output != nil {
		return nil
	}
	switch sealed, err := result.Sealed(p.Purchase, ev); {
	case err != nil:
		return f.reject(ev, err)
	case sealed:
		return f.sealedResult(ctx, p, ev)
	}

	var quote *hashing.Digest
	if f.free != nil {
		quote = &f.free.Hash
	}
	r, err := f.results.Take(ctx, p, ev, quote)
	if err != nil {
		return f.untaken(ctx, ev, err)
	}

	f.heard.serving = true
	early := f.lateAfterPayment() && p.Attempt != nil
	f.say("provider", "result", 0, r.OutputHash.String(), r.Text)
	return errors.Join(f.accept(ctx, f.heard.signed, r, early), f.payAfterwards(ctx, ev))
}

// sealedResult keeps a result that came in boxes. They are fetched before
// anything is paid for them.
func (f *Follower) sealedResult(ctx context.Context, p purchase.View, ev nostr.Event) error {
	if p.SealedEvent != nil {
		return nil
	}
	boxes, bytes, err := f.results.TakeSealed(ctx, p, ev, f.heard.signed, f.free != nil)
	if err != nil {
		return f.untaken(ctx, ev, err)
	}

	f.early = f.lateAfterPayment()
	if err := f.results.KeepSealed(ctx, f.id, f.heard.signed, boxes); err != nil {
		return err
	}
	f.say("provider", "sealed", 0, ev.Tags.Find("commitment")[1], fmt.Sprintf("%d bytes in boxes", bytes))
	if p, err = f.view(ctx); err != nil {
		return err
	}
	if f.postpay != nil {
		return f.demand(ctx, p, *f.postpay)
	}
	return f.unseal(ctx, p)
}

// lateAfterPayment reports whether a result that comes now comes well after its payment.
func (f *Follower) lateAfterPayment() bool {
	return !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace
}

// unseal opens the boxes once they are paid for, and takes what is in them as
// any result. A false box ends the purchase.
func (f *Follower) unseal(ctx context.Context, p purchase.View) error {
	if p.SealedEvent == nil || p.Output != nil || p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		return nil
	}

	o, err := f.results.Open(ctx, p)
	switch {
	case result.IsFalse(err):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.Store.Close(ctx, f.id, purchase.StateFailed, "paid, and delivered a "+text.Clean(err.Error()))
	case err != nil:
		return fmt.Errorf("open the sealed result: %w", err)
	}

	r := o.Delivery()
	f.say("buyer", "opened", 0, r.OutputHash.String(), r.Text)
	return f.accept(ctx, p.SealedEvent, r, f.early)
}

// accept stores a result that was checked, and goes on with what waited for it.
func (f *Follower) accept(ctx context.Context, event []byte, r result.Delivery, early bool) error {
	if err := f.results.Keep(ctx, f.id, event, r, early); err != nil {
		return err
	}
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if f.postpay != nil && p.Attempt == nil {
		return f.demand(ctx, p, *f.postpay)
	}
	return f.takeReceipts(ctx, p, f.judge.OfResult())
}

// payAfterwards pays the invoice that NIP-90 lets a provider put in its result.
func (f *Follower) payAfterwards(ctx context.Context, ev nostr.Event) error {
	if !f.profile.BareResult(ev) {
		return nil
	}
	p, err := f.view(ctx)
	if err != nil || p.State != purchase.StateRequested {
		return err
	}
	return f.demand(ctx, p, ev)
}

// takeReceipts keeps those receipts that prove what they should.
func (f *Follower) takeReceipts(ctx context.Context, p purchase.View, list []nostr.Event) error {
	for _, ev := range list {
		told, refused, err := f.judge.Take(ctx, p, ev)
		switch {
		case err != nil:
			return err
		case refused != nil:
			_ = f.reject(ev, refused)
		case told != "":
			f.say("provider", "receipt", 0, ev.ID, told)
		}
	}
	return nil
}

// untaken goes on without a result: it must not stand in the way of another, nor of the
// end. One whose parts are nowhere is tried again when the purchase is resumed.
func (f *Follower) untaken(ctx context.Context, ev nostr.Event, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.reject(ev, err)
}
