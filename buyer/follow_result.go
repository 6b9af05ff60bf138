package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// result keeps a result that is what it says it is, with its blobs.
func (f *follower) result(ctx context.Context, p view, ev nostr.Event) error {
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

	f.serving = true
	early := f.lateAfterPayment() && p.Attempt != nil
	f.say("provider", "result", 0, r.OutputHash.String(), r.Text)
	return errors.Join(f.accept(ctx, f.signed, r, early), f.payAfterwards(ctx, ev))
}

// sealedResult keeps a result that came in boxes. They are fetched before
// anything is paid for them.
func (f *follower) sealedResult(ctx context.Context, p view, ev nostr.Event) error {
	if p.SealedEvent != nil {
		return nil
	}
	boxes, bytes, err := f.results.TakeSealed(ctx, p, ev, f.signed, f.free != nil)
	if err != nil {
		return f.untaken(ctx, ev, err)
	}

	f.early = f.lateAfterPayment()
	if err := f.results.KeepSealed(ctx, f.id, f.signed, boxes); err != nil {
		return err
	}
	f.say("provider", "sealed", 0, ev.Tags.Find("commitment")[1], fmt.Sprintf("%d bytes in boxes", bytes))
	if p, err = f.view(ctx); err != nil {
		return err
	}
	if f.postpay != nil {
		return f.paymentRequired(ctx, p, *f.postpay)
	}
	return f.unseal(ctx, p)
}

// lateAfterPayment reports whether a result that comes now comes well after its payment:
// events and payments travel on different roads, so a few seconds say nothing.
func (f *follower) lateAfterPayment() bool {
	return !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace
}

// unseal opens the boxes once they are paid for, and takes what is in them as
// any result. A false box ends the purchase.
func (f *follower) unseal(ctx context.Context, p view) error {
	if p.SealedEvent == nil || p.Output != nil || p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		return nil
	}

	o, err := f.results.Open(ctx, p)
	switch {
	case result.IsFalse(err):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, "paid, and delivered a "+text.Clean(err.Error()))
	case err != nil:
		return fmt.Errorf("open the sealed result: %w", err)
	}

	r := o.Delivery()
	f.say("buyer", "opened", 0, r.OutputHash.String(), r.Text)
	return f.accept(ctx, p.SealedEvent, r, f.early)
}

// accept stores a result that was checked, and goes on with what waited for it.
func (f *follower) accept(ctx context.Context, event []byte, r result.Delivery, early bool) error {
	if err := f.results.Keep(ctx, f.id, event, r, early); err != nil {
		return err
	}
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if f.postpay != nil && p.Attempt == nil {
		return f.paymentRequired(ctx, p, *f.postpay)
	}
	return f.receipts(ctx, p, f.judge.OfResult())
}

// payAfterwards pays the invoice that NIP-90 lets a provider put in its result.
func (f *follower) payAfterwards(ctx context.Context, ev nostr.Event) error {
	if !f.profile.BareResult(ev) {
		return nil
	}
	p, err := f.view(ctx)
	if err != nil || p.State != StateRequested {
		return err
	}
	return f.paymentRequired(ctx, p, ev)
}

// receipts takes receipts one after the other.
func (f *follower) receipts(ctx context.Context, p view, list []nostr.Event) error {
	for _, ev := range list {
		if err := f.receipt(ctx, p, ev); err != nil {
			return err
		}
	}
	return nil
}

// receipt keeps a receipt that proves what it should.
func (f *follower) receipt(ctx context.Context, p view, ev nostr.Event) error {
	told, refused, err := f.judge.Take(ctx, p, ev)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return f.reject(ev, refused)
	case told != "":
		f.say("provider", "receipt", 0, ev.ID, told)
	}
	return nil
}

// untaken goes on without a result: it must not stand in the way of another, nor of the
// end. One whose parts are nowhere is tried again when the purchase is resumed.
func (f *follower) untaken(ctx context.Context, ev nostr.Event, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.reject(ev, err)
}

func (f *follower) reject(ev nostr.Event, err error) error {
	f.c.log.Warn("event rejected", "request", f.id, "event", ev.ID, "err", err)
	f.say("buyer", "refused", 0, ev.ID, err.Error())
	return nil
}
