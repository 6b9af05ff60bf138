package proof

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// ErrNothingPaid: there is nothing to dispute.
var ErrNothingPaid = errors.New("nothing was paid for this purchase")

// Dispute gathers what was paid for a purchase and what came for it, in a form
// that anybody can judge offline. Of an encrypted purchase it discloses what was
// asked, agreed and answered in this job, and no key that opens more.
func Dispute(ctx context.Context, store Evidence, p purchase.Purchase) (*receipts.Dispute, error) {
	attempt, bolt11 := p.Due()
	if attempt == nil {
		return nil, ErrNothingPaid
	}
	d := &receipts.Dispute{Boxes: map[string][]byte{}, Invoice: []byte(bolt11 + "\n")}
	payment, doc, acceptance := p.Payment, p.Quote, p.Acceptance
	if p.Attempt == nil { // the engagement fee is all that was paid
		payment, doc, acceptance = p.Engagement.Payment, p.Engagement.Quote, p.Engagement.Acceptance
	}
	d.Preimage = secretOf(payment)
	feedback, err := store.Feedback(ctx, p.RequestID)
	if err != nil {
		return nil, err
	}
	result := p.SealedEvent
	if result == nil {
		result = p.ResultEvent
	}
	parts := []stored{{&d.Request, p.Request, nil}, {&d.Acceptance, acceptance, nil}, {&d.Result, result, nil}}
	if p.Hidden != nil {
		d.RequestTags, d.Quote = p.Hidden, doc
	} else {
		demand, err := demandOf(ctx, store, p.RequestID, doc, bolt11) // of a quote that names no payment hash there may be two
		if err != nil {
			return nil, err
		}
		if demand == nil {
			demand = saying(feedback, doc)
		}
		parts = append(parts, stored{&d.QuoteEvent, demand, nil})
	}

	if p.Attempt != nil && p.Engagement != nil && p.Hidden == nil {
		d.FeeInvoice, d.FeePreimage = []byte(p.Engagement.BOLT11+"\n"), secretOf(p.Engagement.Payment)
		feeQuote, err := demandOf(ctx, store, p.RequestID, p.Engagement.Quote, p.Engagement.BOLT11)
		if err != nil {
			return nil, err
		}
		parts = append(parts, stored{&d.FeeQuoteEvent, feeQuote, nil}, stored{&d.FeeReceipt, p.Engagement.ReceiptEvent, nil})
	}

	if err := gather(parts...); err != nil {
		return nil, err
	}
	return d, boxes(ctx, store, p, d.Boxes)
}

// saying is the first event with this content; nil if there is none.
func saying(events [][]byte, content []byte) []byte {
	for _, raw := range events {
		var ev nostr.Event
		if json.Unmarshal(raw, &ev) == nil && ev.Content == string(content) {
			return raw
		}
	}
	return nil
}

// secretOf is the preimage that a payment gave us, as a file has it.
func secretOf(pay *payments.Payment) []byte {
	if pay == nil || pay.Preimage.IsZero() {
		return nil
	}
	return []byte(pay.Preimage.String() + "\n")
}

// boxes puts the boxes of a sealed result into the map, by their SHA-256 in hex.
func boxes(ctx context.Context, store Evidence, p purchase.Purchase, into map[string][]byte) error {
	if p.SealedEvent == nil {
		return nil
	}
	ev, err := purchase.EventOf(p.SealedEvent)
	if err != nil {
		return err
	}
	refs, err := blob.Refs(ev.Tags)
	if err != nil {
		return err
	}

	for _, ref := range blob.Boxes(refs) {
		if into[ref.Digest.Hex()], err = store.Content(ctx, ref.Digest); err != nil {
			return err
		}
	}

	return nil
}
