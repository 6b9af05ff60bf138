package flow

import (
	"context"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// steps are what is done about a purchase in one state. What comes in any state, such
// as a result or a receipt, is taken whenever it comes.
type steps struct {
	// offer: the provider asks to be paid.
	offer func(ctx context.Context, f *Follower, p purchase.View, ev nostr.Event) error
	// refusal: the provider gives up, for the reason in its last word.
	refusal func(ctx context.Context, f *Follower, p purchase.View) error
	// silence: AnswerTimeout has passed once more.
	silence func(ctx context.Context, f *Follower, p purchase.View) error
	// settle closes the purchase once all is there that it will get.
	settle func(ctx context.Context, f *Follower, p purchase.View) (done bool, err error)
}

// stepsOf has the steps of every open state; of the others there are none.
func stepsOf(s purchase.State) (st steps, open bool) {
	switch s {
	case purchase.StateRequested:
		return steps{offer: consider, refusal: refusedUnpaid, silence: silentUnpaid, settle: settleUnpaid}, true
	case purchase.StatePaying:
		return steps{offer: considerAfterFee, refusal: refusedWhilePaying, silence: silentWhilePaying, settle: settleNothing}, true
	case purchase.StatePaid:
		return steps{offer: ignoreOffer, refusal: refusedPaid, silence: silentPaid, settle: settlePaid}, true
	}
	return steps{}, false
}

// demand takes an event that asks to be paid.
func (f *Follower) demand(ctx context.Context, p purchase.View, ev nostr.Event) error {
	if st, open := stepsOf(p.State); open {
		return st.offer(ctx, f, p, ev)
	}
	return nil
}

// refused takes the reason for which the provider gives up. One that gives none is
// remembered too.
func (f *Follower) refused(ctx context.Context, p purchase.View, reason string) error {
	if f.heard.reason = reason; reason == "" {
		f.heard.reason = "the provider gives no reason"
	}
	if st, open := stepsOf(p.State); open {
		return st.refusal(ctx, f, p)
	}
	return nil
}

// silence is called when AnswerTimeout passed once more. It ends a purchase
// that nobody answers, or answers no more, before any money moved, and stops
// waiting for a provider that has the money and sends nothing more.
func (f *Follower) silence(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if st, open := stepsOf(p.State); open {
		return st.silence(ctx, f, p)
	}
	return nil
}

// settle closes the purchase once all is there that its mode promises, or that will
// come.
func (f *Follower) settle(ctx context.Context) (done bool, err error) {
	p, err := f.view(ctx)
	if err != nil {
		return false, err
	}
	st, open := stepsOf(p.State)
	if !open {
		return true, nil
	}
	return st.settle(ctx, f, p)
}
