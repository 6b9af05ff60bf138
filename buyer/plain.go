package buyer

import (
	"context"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// progressText is what a provider says beside its status: words in the status
// tag, or in the content where that is no quote.
func progressText(info, content string) string {
	const most = 200
	if info == "" && !purchase.IsQuote(content) {
		info = text.Clean(content)
	}
	if runes := []rune(info); len(runes) > most {
		info = string(runes[:most])
	}
	return info
}

// namesMore reports whether a success names more than the request: ours name
// the receipt.
func namesMore(ev nostr.Event, requestID string) bool {
	for _, t := range ev.Tags {
		if len(t) >= 2 && t[0] == "e" && t[1] != requestID {
			return true
		}
	}
	return false
}

// payBare pays an invoice that came without a quote, within the job's maximum
// and the budget, once.
func (f *follower) payBare(ctx context.Context, p view, ev nostr.Event) error {
	o, err := offer.CheckBare(p, ev, f.network)
	if err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeBadOffer, err.Error())
	}
	f.say("provider", "asks", o.PriceMsats, "", purchase.NoQuote)

	award, err := f.c.offers.Award(ctx, p, o)
	if offer.NotApproved(err) {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeNotApproved, err.Error())
	}
	if err != nil {
		return err
	}
	return f.reserveAndPay(ctx, p, award)
}

// withoutReceipt ends a purchase that has all that will come and no receipt:
// at once where nothing promised one, and where the provider says that it is
// done without one.
func (f *follower) withoutReceipt(ctx context.Context, p view) (done bool, err error) {
	reason := ""
	switch {
	case p.Output == nil || p.ReceiptID != "":
	case p.State == StatePaid && p.Attempt != nil && p.Quote == nil:
		reason = "without receipt: " + purchase.NoQuote
	case p.State == StatePaid && f.ended:
		reason = "without receipt: the provider signed none"
	case p.State == StatePaid && f.lastWord != "":
		reason = "without receipt: the provider says " + f.lastWord
	case p.State == StateRequested && f.profile.EndsUnpaid() && f.ended:
		reason = "without receipt: it names a price and sent no invoice, so nothing was paid"
	}

	if reason == "" {
		return false, nil
	}
	if err := f.c.cfg.Store.Close(ctx, f.id, StateDone, reason); err != nil {
		return false, fmt.Errorf("close purchase: %w", err)
	}

	f.say("buyer", "done_unproved", 0, "", reason)
	return true, nil
}

// doneWord says how much is known of a purchase that is done.
func doneWord(p Purchase) string {
	if p.Bound() {
		return "done"
	}
	return "done_unproved"
}
