package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// requestFor makes the tags that carry the job, and what they name as inputs. A
// plain provider gets a text generation as NIP-90 has it, untyped; the job is
// then what these tags say.
func requestFor(s *schemas.Schema, o Order, relays []string) (req *schemas.Request, tags nostr.Tags, inputs []byte, err error) {
	if len(o.Inputs) > 0 {
		return chainedFor(s, o, relays)
	}
	req, err = s.ParseRequest(o.Input)
	if err != nil {
		return nil, nil, nil, err
	}
	text, ok := req.Value.(*schemas.TextRequest)
	if !o.Plain || !ok {
		return req, nostr.Tags{
			{"param", "schema", string(req.SchemaID)}, {"i", string(req.Canonical), "text"}, {"output", "application/json"},
		}, nil, nil
	}
	for _, t := range receipts.UntypedTags(text) {
		tags = append(tags, t)
	}
	typed, err := receipts.UntypedOf(tags)
	if err != nil {
		return nil, nil, nil, err
	}
	req, err = s.ParseRequest(typed.Input)
	return req, tags, nil, err
}

// progressText is what a provider says beside its status: words in the status
// tag, or in the content where that is no quote.
func progressText(info, content string) string {
	const most = 200
	if info == "" && !offer.IsQuote(content) {
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

// mayBeUnbound reports whether a result may come without the hashes that bind
// it: nothing was promised in a quote, and nobody is paid for it unless the
// buyer allowed that.
func mayBeUnbound(p Purchase, ev nostr.Event) bool {
	return p.Quote == nil && (p.Plain || p.Attempt == nil && asksNothing(ev))
}

func asksNothing(ev nostr.Event) bool {
	t := ev.Tags.Find("amount")
	return t == nil || t[1] == "0"
}

// signedHash is the hash of the output that the event was signed with; nil if
// it names none and need not.
func signedHash(p Purchase, ev nostr.Event) *hashing.Digest {
	t := ev.Tags.Find("output_hash")
	if t == nil && mayBeUnbound(p, ev) {
		return nil
	}
	var d hashing.Digest
	if t != nil {
		d, _ = hashing.ParseDigest(t[1]) // another one is no output's
	}
	return &d
}

// plainResult takes what a plain provider signed, whatever it is: a
// request that names a schema binds nobody who does not know it.
func (f *follower) plainResult(ctx context.Context, p view, ev nostr.Event, output []byte) error {
	if len(output) == 0 {
		return f.reject(ev, purchase.Mismatch("result", "it is empty"))
	}
	what := ", as text"
	if p.SchemaID != string(schemas.TextGeneration) {
		what = ", which are no " + p.SchemaID + " result"
	}
	f.early = !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace && p.Attempt != nil
	f.say("provider", "result", 0, hashing.Bytes(output).String(), fmt.Sprintf("%d bytes%s", len(output), what))
	return errors.Join(f.accept(ctx, f.signed, output, nil), f.payAfterwards(ctx, ev))
}

// payAfterwards pays the invoice that NIP-90 lets a provider put in its result.
func (f *follower) payAfterwards(ctx context.Context, ev nostr.Event) error {
	if t := ev.Tags.Find("amount"); len(t) < 3 || ev.Tags.Find("quote_hash") != nil {
		return nil // where there is a quote, it says what is paid
	}
	p, err := f.view(ctx)
	if err != nil || !p.Plain || p.State != StateRequested {
		return err
	}
	return f.paymentRequired(ctx, p, ev)
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
	case p.State == StateRequested && p.Plain && f.ended:
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
