package flow

import (
	"context"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// ignoreOffer: what is paid is paid once.
func ignoreOffer(context.Context, *Follower, purchase.View, nostr.Event) error { return nil }

// refusedPaid ends a purchase that was paid for and that the provider gives up. One
// whose result is here waits for its receipt.
func refusedPaid(ctx context.Context, f *Follower, p purchase.View) error {
	if p.Output != nil {
		return nil
	}
	return f.Store.Close(ctx, f.id, endState(p), "paid, no result: "+f.heard.reason)
}

// silentPaid stops waiting for a provider that has the money and sends nothing more. The
// purchase ends for good only if it was canceled and the provider has had all the time
// that the job may take since the payment, however often we have started again.
func silentPaid(ctx context.Context, f *Follower, p purchase.View) error {
	if f.takesAsDone(p) || time.Since(f.paidAt) <= f.ReceiptTimeout {
		return nil
	}
	over := time.Since(p.StateAt) > max(f.ReceiptTimeout, serveMost+f.terms.RunLimit)
	if p.Cancel == nil || !over {
		return ErrIncomplete
	}
	if !f.late() && f.heard.quiet() <= f.ReceiptTimeout {
		return nil
	}

	// What it still sends back to where the request says is looked for all the same.
	to, reason := purchase.StateFailed, "paid, no result: the provider is silent, and it was canceled"
	if p.Output != nil {
		to, reason = purchase.StateDone, "without receipt: none came until it was canceled"
	}
	f.say("buyer", "given_up", 0, "", reason)
	return f.Store.Close(ctx, f.id, to, reason)
}

// settlePaid closes a purchase whose result is here with all its receipts; and without
// one where nothing promised it, or the provider says that it is done without it.
func settlePaid(ctx context.Context, f *Follower, p purchase.View) (done bool, err error) {
	if p.Output == nil {
		return false, nil
	}
	if p.ReceiptID != "" {
		if p.Engagement != nil && p.Engagement.ReceiptID == "" {
			return false, nil
		}
		return f.done(ctx, p, "")
	}

	switch {
	case p.Attempt != nil && p.Quote == nil:
		return f.done(ctx, p, "without receipt: "+purchase.NoQuote)
	case f.heard.ended:
		return f.done(ctx, p, "without receipt: the provider signed none")
	case f.heard.reason != "":
		return f.done(ctx, p, "without receipt: the provider says "+f.heard.reason)
	}
	return false, nil
}
