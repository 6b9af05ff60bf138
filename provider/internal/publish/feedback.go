package publish

import (
	"context"
	"encoding/json"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

// FeedbackEvent is a 7000: ["status", S, info], content.
func (p *Publisher) FeedbackEvent(ctx context.Context, to Addressee, status, info, content string, more ...nostr.Tag) (nostr.Event, error) {
	said := nostr.Tag{"status", status}
	if info != "" {
		said = append(said, info)
	}
	d := feedbackDomain(status, content)
	open := append(nostr.Tags{said, {"e", to.Request}, {"p", to.Buyer}}, more...)
	if to.Scheme == "" {
		return p.Sign(ctx, kinds.Feedback, d, open, content)
	}
	inside := append(append(nostr.Tags{said}, more...), d.Tag())
	if content != "" {
		inside = append(inside, nostr.Tag{"content", content})
	}
	if d == domain.Quote { // signed by itself, so that the buyer can show it and no more
		signed, err := p.Sign(ctx, kinds.Feedback, d, open, content)
		if err != nil {
			return nostr.Event{}, err
		}
		raw, err := signed.MarshalJSON()
		if err != nil {
			return nostr.Event{}, err
		}
		inside = append(inside, nostr.Tag{InnerTag, string(raw)})
	}

	doc, err := json.Marshal(inside)
	if err != nil {
		return nostr.Event{}, err
	}
	hidden, err := p.Encrypt(ctx, to, string(doc))
	if err != nil {
		return nostr.Event{}, err
	}
	return p.Sign(ctx, kinds.Feedback, domain.Encrypted, nostr.Tags{{"e", to.Request}, {"p", to.Buyer}, {"encrypted"}}, hidden)
}

// feedbackDomain says what a 7000 is: those that ask for money or begin a job
// without it carry a quote.
func feedbackDomain(status, content string) domain.Domain {
	switch {
	case status == receipts.StatusReveal:
		return domain.Reveal
	case content != "" && (status == "payment-required" || status == "processing"):
		return domain.Quote
	}
	return domain.Feedback
}

// Feedback is a 7000 that must reach relays.
func (p *Publisher) Feedback(ctx context.Context, to Addressee, status, info, content string, more ...nostr.Tag) (job.OutEvent, error) {
	ev, err := p.FeedbackEvent(ctx, to, status, info, content, more...)
	if err != nil {
		return job.OutEvent{}, err
	}
	out, err := p.Queue(ev, to.Request)
	out.Domain = string(feedbackDomain(status, content)) // which an encrypted one does not tell
	return out, err
}
