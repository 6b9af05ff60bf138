package buyer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

func (f *follower) feedback(ctx context.Context, p view, ev nostr.Event) error {
	status := ev.Tags.Find("status")
	if status == nil {
		return nil
	}
	if err := offer.CheckFeedback(ev); err != nil {
		return f.reject(ev, err)
	}

	info := ""
	if len(status) > 2 {
		info = text.Clean(status[2])
	}
	if status[1] != "partial" && f.keeps(f.signed) {
		if err := f.c.cfg.Store.AddFeedback(ctx, f.id, ev.ID, f.signed, ev.CreatedAt.Time()); err != nil {
			return err
		}
	}

	switch status[1] {
	case "payment-required", "payment_required": // the latter is NDK's
		return f.paymentRequired(ctx, p, ev)
	case "processing":
		if err := f.freeQuote(p, ev); err != nil {
			return f.reject(ev, err)
		}
		f.serving = f.serving || !p.Terms.QuotesFirst()
		f.say("provider", "processing", 0, "", progressText(info, ev.Content))
		f.asBefore = !p.State.Terminal()
	case "partial":
		f.partial(ev)
		f.asBefore = !p.State.Terminal()
	case "refund":
		f.say("provider", "refund", 0, "", info)
		return f.c.refunds.Credit(ctx, f.id, ev, CreditOwed) // what came too late on the chain
	case "success":
		f.say("provider", "success", 0, "", "")
		f.ended = f.ended || !namesMore(ev, p.RequestID)
	case "error":
		f.say("provider", "error", 0, "", info)
		if err := f.c.refunds.Credit(ctx, f.id, ev, CreditOwed); err != nil {
			return err
		}
		return f.refused(ctx, p, info)
	}

	return nil
}

// checkFeedback wants a quote where the domain says that there is one, and
// nowhere else. A program that knows NIP-90 alone names no domain and has no quote.
func checkFeedback(ev nostr.Event) error {
	d, err := domain.Of(ev.Tags)
	switch {
	case err != nil:
		return err
	case purchase.IsQuote(ev.Content):
		return domain.Demand(domain.Quote, ev.Tags)
	case d == domain.Quote:
		_, err := receipts.ParseQuote([]byte(ev.Content))
		return purchase.Mismatch("quote", err.Error())
	case d == domain.Reveal:
		return nil
	}

	return domain.Allow(domain.Feedback, ev.Tags)
}

// freeQuote takes the quote of a job that nobody pays for, which comes with the
// first word about it.
func (f *follower) freeQuote(p view, ev nostr.Event) error {
	if p.Attempt != nil || !purchase.IsQuote(ev.Content) {
		return nil
	}
	o, err := f.c.offers.CheckResultQuote(p, ev.Content, time.Now())
	if err != nil {
		return err
	}
	if o.Quote.Mode == receipts.ModeFree {
		f.free = &o
	}
	return nil
}

// feedbackMax bounds the feedback that is kept of one purchase.
const feedbackMax = 64

// keeps bounds what a talkative provider can make us store.
func (f *follower) keeps(raw []byte) bool {
	f.kept++
	return f.kept <= feedbackMax && len(raw) <= offer.MaxBytes
}

func (f *follower) partial(ev nostr.Event) {
	var part struct {
		Stage string `json:"stage"`
		Text  string `json:"text"`
	}
	if json.Unmarshal([]byte(ev.Content), &part) != nil {
		part.Text = ev.Content // any words, from other programs
	}

	switch {
	case part.Text != "":
		f.say("provider", "partial", 0, "", text.Clean(part.Text))
	case part.Stage != "": // the output itself is for sale
		f.say("provider", "working", 0, "", text.Clean(part.Stage))
	}
}

// refused ends a purchase that the provider gave up, if no money of ours is on
// the way. With a held payment the end is what the wallet says.
func (f *follower) refused(ctx context.Context, p view, info string) error {
	f.lastWord = info
	to := StateFailed
	if p.Cancel != nil {
		to = StateCanceled // as we asked
	}

	switch p.State {
	case StateRequested:
		return f.c.cfg.Store.CloseUnpaid(ctx, f.id, to, info)
	case StatePaying:
		if f.back != nil {
			return f.cameBack(ctx)
		}
	case StatePaid:
		if p.Output == nil {
			return f.c.cfg.Store.Close(ctx, f.id, to, "paid, no result: "+info)
		}
	}

	return nil
}

// abandon ends a purchase that was paid for long ago and that we have canceled, and of
// which nothing more comes. A provider that has the money and is silent would keep it open
// for ever. What it still sends back to where the request says is looked for all the same.
func (f *follower) abandon(ctx context.Context, p view) error {
	to, reason := StateFailed, "paid, no result: the provider is silent, and it was canceled"
	if p.Output != nil {
		to, reason = StateDone, "without receipt: none came until it was canceled"
	}
	f.say("buyer", "given_up", 0, "", reason)
	return f.c.cfg.Store.Close(ctx, f.id, to, reason)
}
