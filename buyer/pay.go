package buyer

import (
	"context"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// wordGrace is how long the provider's reason may take to arrive after a
// payment came back: the two travel on different roads.
const wordGrace = 2 * time.Second

// pay sees the one payment of the purchase through in a goroutine of its own, and
// reports its terminal state.
func (f *follower) pay(ctx context.Context, p Purchase) {
	f.g.Go(func() error {
		pay, err := f.c.payer.Outcome(ctx, p, f.told)
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

// payment records how the payment ended.
func (f *follower) payment(ctx context.Context, pay payments.Payment) error {
	if pay.State == payments.PaymentFailed {
		f.back = &pay
		if f.lastWord == "" {
			f.backLong = time.After(wordGrace)
			return nil
		}
		return f.cameBack(ctx)
	}

	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if err := f.c.payer.Record(ctx, p.Purchase, pay); err != nil {
		return err
	}

	due, _ := p.Due()
	if due.Purpose != string(receipts.PurposeEngagement) {
		f.paidAt = time.Now()
	}
	what, text := "paid", fmt.Sprintf("fee %d msats", pay.FeeMsats)
	if f.network.Rail() == payments.RailOnChain {
		what, text = "confirmed", text+", "+pay.Outpoints
	}
	f.say("wallet", what, pay.AmountMsats, pay.Hash.String(), text)
	if due.Purpose == string(receipts.PurposeEngagement) {
		return f.engaged(ctx)
	}
	if p, err = f.view(ctx); err != nil {
		return err
	}
	if err := f.receipts(ctx, p, f.judge.Pending()); err != nil {
		return err
	}
	if p.SealedEvent != nil {
		return f.unseal(ctx, p)
	}
	if f.lastWord != "" { // it was said before we knew that the money was gone
		return f.refused(ctx, p, f.lastWord)
	}

	return nil
}

// cameBack ends a purchase whose payment failed for good, with the provider's
// reason where it gave one.
func (f *follower) cameBack(ctx context.Context) error {
	reason, to := CodeNoPayment+": "+f.back.FailureReason, StateFailed
	if f.lastWord != "" {
		reason = f.lastWord + " (the payment came back)"
	}
	p, err := f.view(ctx)
	if err != nil {
		return err
	}

	due, _ := p.Due()
	switch {
	case p.Cancel != nil:
		to = StateCanceled // as we asked
	case f.lastWord == "" && due != nil && time.Since(due.ReservedAt) > pay.Timeout: // it was held, not without a route
		reason = CodeNoAnswer + ": the payment was held, nothing came for it, and it came back: " + f.back.FailureReason
	}

	f.say("wallet", "payment_failed", f.back.AmountMsats, f.back.Hash.String(), reason)
	if err := f.c.cfg.Store.Unpaid(ctx, f.id, *f.back, to, reason); err != nil || f.lastWord != "" {
		return err
	}
	f.waive(ctx)
	return nil
}

// settleUp closes the purchase once all is there that its mode promises.
func (f *follower) settleUp(ctx context.Context) (done bool, err error) {
	p, err := f.view(ctx)
	if err != nil || p.State.Terminal() {
		return p.State.Terminal(), err
	}
	free := p.Attempt == nil && p.Output != nil && f.isFree(p.Purchase)
	receipted := p.ReceiptID != "" && (p.Engagement == nil || p.Engagement.ReceiptID != "")
	if free || p.State == StatePaid && p.Output != nil && receipted {
		if err := f.c.cfg.Store.Close(ctx, f.id, StateDone, ""); err != nil {
			return false, fmt.Errorf("close purchase: %w", err)
		}
		f.say("buyer", doneWord(p.Purchase), 0, "", p.ReceiptID)
		return true, nil
	}

	return f.withoutReceipt(ctx, p)
}

// isFree reports whether the result says it costs nothing.
func (f *follower) isFree(p Purchase) bool {
	var ev nostr.Event
	if ev.UnmarshalJSON(p.ResultEvent) != nil {
		return false
	}
	return profile.Free(ev)
}
