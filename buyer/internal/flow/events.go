package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/receipts"
)

// listen subscribes to the provider's answers and waits until a relay serves
// the subscription: an answer that comes before would be lost.
func (f *Follower) listen(ctx context.Context, p purchase.View) error {
	own := f.Author.Kinds
	filters := nostr.Filters{{
		Kinds:   []int{kinds.Feedback, own.Request + kinds.ResultOffset, own.Receipt},
		Authors: []string{p.Provider}, Tags: nostr.TagMap{"e": {p.RequestID}},
	}}
	ready := make(chan struct{}, 1)
	f.g.Go(func() error {
		return f.Market.Listen(ctx, filters, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(ev nostr.Event) {
			select {
			case f.events <- ev:
			case <-ctx.Done():
			}
		})
	})

	patience := time.NewTimer(relayPatience)
	defer patience.Stop()
	for {
		select {
		case <-ready:
			return nil
		case pay := <-f.paid:
			if err := f.payment(ctx, pay); err != nil {
				return err
			}
		case <-patience.C:
			return fmt.Errorf("%w in %v", ErrNoRelay, relayPatience)
		case <-ctx.Done():
			return fmt.Errorf("no relay answered: %w", context.Cause(ctx))
		}
	}
}

// publish sends what we have signed so far; sending it twice is harmless. Only
// a request that must still be heard has to be taken: relays refuse one that
// its cancellation has deleted, or that has expired.
func (f *Follower) publish(ctx context.Context, p purchase.View) error {
	if p.Cancel == nil && !f.terms.Expired(time.Now()) {
		request, err := purchase.EventOf(p.Request)
		if err != nil {
			return err
		}
		if err := f.Market.Send(ctx, request); err != nil && p.State == purchase.StateRequested && p.SealedEvent == nil {
			return fmt.Errorf("publish request: %w", err)
		}
	}

	for _, charge := range []*purchase.Charge{p.Engagement, &p.Charge} {
		if charge == nil || charge.Acceptance == nil {
			continue
		}
		acceptance, err := f.acceptance(ctx, p.Purchase, charge.Acceptance)
		if err != nil {
			return err
		}
		if err := f.Market.Send(ctx, acceptance); err != nil {
			f.Log.Warn("acceptance not published yet", "request", f.id, "err", err)
		}
	}
	if p.Cancel != nil {
		deletion, err := purchase.EventOf(p.Cancel)
		if err != nil {
			return err
		}
		if err := f.Market.Send(ctx, deletion); err != nil {
			f.Log.Warn("cancellation not published yet", "request", f.id, "err", err)
		}
	}

	if p.State == purchase.StateRequested && p.Cancel != nil {
		return f.closeCanceled(ctx, p)
	}
	f.say("buyer", "requested", p.MaxMsats, p.JobHash.String(), p.SchemaID)
	return nil
}

// event takes one event of the provider's. Events that do not fit are logged
// and dropped; only a signed quote that cheats ends the purchase.
func (f *Follower) event(ctx context.Context, ev nostr.Event) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if f.heard.seen[ev.ID] || ev.PubKey != p.Provider || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return nil
	}
	f.heard.see(ev.ID)

	if ev, err = f.signed(ctx, p, ev); err != nil {
		return f.reject(ev, err)
	}
	switch ev.Kind {
	case kinds.Feedback:
		return f.feedback(ctx, p, ev)
	case f.Author.Kinds.Request + kinds.ResultOffset:
		return f.result(ctx, p, ev)
	case f.Author.Kinds.Receipt:
		if proof.PurposeOf(ev) == receipts.PurposeResult && p.Output == nil {
			f.judge.Early(ev)
			return nil
		}
		return f.takeReceipts(ctx, p, []nostr.Event{ev})
	}
	return nil
}

// signed decrypts an event, and keeps it as it was signed.
func (f *Follower) signed(ctx context.Context, p purchase.View, outer nostr.Event) (nostr.Event, error) {
	raw, err := json.Marshal(outer)
	if err != nil {
		return outer, err
	}
	ev, err := f.Author.Decrypt(ctx, p.Purchase, outer)
	if err != nil {
		return ev, err
	}
	if ev.ID != outer.ID { // a signed event came out of it
		if raw, err = json.Marshal(ev); err != nil {
			return ev, err
		}
	}
	f.heard.signed = raw
	return ev, nil
}

func (f *Follower) feedback(ctx context.Context, p purchase.View, ev nostr.Event) error {
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
	if status[1] != "partial" && f.heard.keeps() {
		if err := f.Store.AddFeedback(ctx, f.id, ev.ID, f.heard.signed, ev.CreatedAt.Time()); err != nil {
			return err
		}
	}

	switch status[1] {
	case "payment-required", "payment_required": // the latter is NDK's
		return f.demand(ctx, p, ev)
	case "processing":
		if err := f.freeQuote(p, ev); err != nil {
			return f.reject(ev, err)
		}
		f.heard.serving = f.heard.serving || !p.Terms.QuotesFirst()
		f.say("provider", "processing", 0, "", progressText(info, ev.Content))
		f.heard.unchanged = !p.State.Terminal()
	case "partial":
		if room := ev.Tags.Find(tree.RoomTag); room != nil {
			return f.send(ctx, p, room)
		}
		if what, words := partial(ev.Content); words != "" {
			f.say("provider", what, 0, "", text.Clean(words))
		}
		f.heard.unchanged = !p.State.Terminal()
	case "refund":
		f.say("provider", "refund", 0, "", info)
		return f.Refunds.Credit(ctx, f.id, ev, purchase.CreditOwed) // what came too late on the chain
	case "success":
		f.say("provider", "success", 0, "", "")
		f.heard.ended = f.heard.ended || !namesMore(ev, p.RequestID)
	case "error":
		f.say("provider", "error", 0, "", info)
		if err := f.Refunds.Credit(ctx, f.id, ev, purchase.CreditOwed); err != nil {
			return err
		}
		return f.refused(ctx, p, info)
	}
	return nil
}

// freeQuote takes the quote of a job that nobody pays for, which comes with the
// first word about it.
func (f *Follower) freeQuote(p purchase.View, ev nostr.Event) error {
	if p.Attempt != nil || !purchase.IsQuote(ev.Content) {
		return nil
	}
	o, err := f.Offers.CheckResultQuote(p, ev.Content, time.Now())
	if err != nil {
		return err
	}
	if o.Quote.Mode == receipts.ModeFree {
		f.free = &o
	}
	return nil
}

// partial reads what a provider tells while it works: a piece of text, or what it does;
// the output itself is for sale.
func partial(content string) (what, words string) {
	var part struct {
		Stage string `json:"stage"`
		Text  string `json:"text"`
	}
	if json.Unmarshal([]byte(content), &part) != nil {
		part.Text = content // any words, from other programs
	}
	if part.Text != "" {
		return "partial", part.Text
	}
	return "working", part.Stage
}

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
