package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// ErrEngagement: the provider asks a fee for the attempt that we do not pay.
// Nothing was sent.
var ErrEngagement = errors.New("the engagement fee is more than buyer.max_engagement_msats")

// engagementFor is the fee that the provider has announced for this order, which
// is then the most that it is paid. ErrEngagement if that is more than we pay.
func (c *Client) engagementFor(o Order, req *schemas.Request, judged bool) (int64, error) {
	if o.Announced == nil || o.Plain {
		return 0, nil
	}
	mode, modes := o.Mode, o.Announced.Modes[o.SchemaID]
	if mode == "" && len(modes) > 0 {
		mode = modes[0]
	}
	fee := o.Announced.Prices[string(req.SchemaID)].Engagement(req, judged)
	if mode == receipts.ModeFree || fee == 0 {
		return 0, nil
	}
	if fee < 0 || fee > c.cfg.MaxEngagementMsats {
		return 0, fmt.Errorf("%w: it is %d msats, and we pay %d at most", ErrEngagement, fee, c.cfg.MaxEngagementMsats)
	}

	return fee, nil
}

// engaged goes on after the fee was paid, with what has come meanwhile: the
// provider may know of the payment before our wallet does.
func (f *follower) engaged(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	f.began = time.Time{} // its time for the job begins now

	switch {
	case p.Cancel != nil: // meanwhile
		return f.c.cfg.Store.CloseUnpaid(ctx, f.id, StateCanceled, canceledText(p.Purchase))
	case f.lastWord != "":
		return f.refused(ctx, p, f.lastWord)
	}

	if next := f.afterFee; next != nil {
		f.afterFee = nil
		return f.paymentRequired(ctx, p, *next)
	}
	return nil
}

// paidFor is what an event is the receipt of: the result, where it cannot be read.
func paidFor(ev nostr.Event) receipts.Purpose {
	r, err := receipts.ParseReceipt([]byte(ev.Content))
	if err != nil {
		return receipts.PurposeResult
	}
	return r.PaidFor()
}

// EngagementBundleOf gathers what proves the fee of a purchase: ErrNoReceipt if it
// has no receipt of one. The policy is in it once the result has brought it.
func EngagementBundleOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	if p.Engagement == nil || p.Engagement.ReceiptEvent == nil {
		return nil, ErrNoReceipt
	}
	e := p.Engagement
	b := &receipts.Bundle{Quote: e.Quote, Inputs: p.Inputs, Artifacts: map[string][]byte{}}
	err := gather(
		stored{&b.ReceiptEvent, e.ReceiptEvent, &b.Receipt},
		stored{&b.Request, p.Request, nil},
		stored{&b.Acceptance, e.Acceptance, nil},
	)
	if err != nil {
		return nil, err
	}
	if b.QuoteEvent, err = demandOf(ctx, store, p.RequestID, e.Quote, e.BOLT11); err != nil {
		return nil, err
	}

	rec, err := receipts.ParseReceipt(b.Receipt)
	if err != nil {
		return nil, fmt.Errorf("stored receipt: %w", err)
	}
	if rec.AcceptanceEventID == nil {
		b.Acceptance = nil // it came too late: the receipt does not claim it
	}
	if policy, err := store.Content(ctx, rec.PolicyBundleID); err == nil {
		b.Policy = policy
	}
	if previous, ok := previousOf(ctx, store, b.Receipt); ok {
		b.Previous = previous
	}
	return b, nil
}

// demandOf is the event in which the provider asked for what was paid, in the form of
// a bundle; nil if it is not known.
func demandOf(ctx context.Context, store Evidence, requestID string, quote []byte, bolt11 string) ([]byte, error) {
	q, err := receipts.ParseQuote(quote)
	if err != nil {
		return nil, fmt.Errorf("stored quote: %w", err)
	}
	feedback, err := store.Feedback(ctx, requestID)
	if err != nil {
		return nil, err
	}

	for _, raw := range feedback {
		ev, err := receipts.ParseEvent(raw, purchase.MaxEventBytes)
		if err == nil && ev.Content == string(quote) && receipts.CheckQuoteEvent(ev, q, bolt11) == nil {
			return ev.JSON(), nil
		}
	}

	return nil, nil
}
