package flow

import (
	"context"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// refuse ends a purchase over an offer that is not paid, and says why.
func (f *Follower) refuse(ctx context.Context, p purchase.View, code string, why error) error {
	f.say("buyer", "refused", 0, "", text.Clean(why.Error()))
	return f.decline(ctx, p, code, why.Error())
}

// decline ends a purchase that is asked to pay and does not. [purchase.ErrConflict] if
// another follower of the same purchase pays, or has paid, meanwhile: that one sees it
// through.
func (f *Follower) decline(ctx context.Context, p purchase.View, code, why string) error {
	why = text.Clean(code + ": " + why)
	if err := f.Store.CloseUnpaid(ctx, p.RequestID, purchase.StateFailed, why); err != nil {
		return fmt.Errorf("decline (%s): %w", why, err)
	}
	if f.Others == nil {
		f.Waive(ctx)
		return nil
	}
	f.Others.Aside(f.Waive)
	return nil
}

// Waive tells the provider of a purchase that has ended without a payment that
// none will come: its invoice, and our place among those that it lets stand
// unpaid, are free at once and not when the quote expires. That is a courtesy, so
// nothing hangs on it.
func (f *Follower) Waive(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, courtesyTime)
	defer stop()

	p, err := f.Store.Purchase(ctx, f.id)
	if err == nil && p.Cancel == nil {
		var ev nostr.Event
		if ev, _, err = f.Author.Deletion(ctx, p.RequestID, p.Provider, "not paid by the buyer"); err == nil {
			err = f.Market.Send(ctx, ev)
		}
	}
	if err != nil {
		f.Log.Warn("the provider was not told that nothing will be paid", "request", f.id, "err", err)
	}
}

// closeCanceled ends a purchase that we have canceled before its result was paid for.
func (f *Follower) closeCanceled(ctx context.Context, p purchase.View) error {
	return f.Store.CloseUnpaid(ctx, f.id, purchase.StateCanceled, p.CanceledText())
}

// done closes a purchase that has its result, and all that was to come of it; or with the
// reason why no receipt will.
func (f *Follower) done(ctx context.Context, p purchase.View, reason string) (bool, error) {
	if err := f.Store.Close(ctx, f.id, purchase.StateDone, reason); err != nil {
		return false, fmt.Errorf("close purchase: %w", err)
	}

	word, text := "done_unproved", reason
	if reason == "" {
		text = p.ReceiptID
		if p.Bound() {
			word = "done"
		}
	}
	f.say("buyer", word, 0, "", text)
	return true, nil
}

// endState is how a purchase ends that its provider does not serve.
func endState(p purchase.View) purchase.State {
	if p.Cancel != nil {
		return purchase.StateCanceled // as we asked
	}
	return purchase.StateFailed
}
