package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// ErrNothingPaid: there is nothing to dispute.
var ErrNothingPaid = errors.New("nothing was paid for this purchase")

// DisputeOf gathers what was paid for a purchase and what came for it, in a form
// that anybody can judge offline.
func DisputeOf(ctx context.Context, store Store, p Purchase) (*receipts.Dispute, error) {
	switch {
	case p.Attempt == nil:
		return nil, ErrNothingPaid
	case p.Hidden != nil:
		return nil, ErrHidden
	}
	d := &receipts.Dispute{Boxes: map[string][]byte{}, Invoice: []byte(p.BOLT11 + "\n")}
	if p.Payment != nil && p.Payment.State == payments.PaymentSucceeded {
		d.Preimage = []byte(p.Payment.Preimage.String() + "\n")
	}
	feedback, err := store.Feedback(ctx, p.RequestID)
	if err != nil {
		return nil, err
	}
	var quote []byte
	for _, raw := range feedback {
		var ev nostr.Event
		if json.Unmarshal(raw, &ev) == nil && ev.Content == string(p.Quote) && quote == nil {
			quote = raw
		}
	}
	result := p.SealedEvent
	if result == nil {
		result = p.ResultEvent
	}
	for _, part := range []struct {
		to  *[]byte
		raw []byte
	}{{&d.Request, p.Request}, {&d.QuoteEvent, quote}, {&d.Acceptance, p.Acceptance}, {&d.Result, result}} {
		if part.raw == nil {
			continue
		}
		ev, err := receipts.ParseEvent(part.raw, eventMax)
		if err != nil {
			return nil, fmt.Errorf("stored event: %w", err)
		}
		*part.to = ev.JSON()
	}
	return d, boxes(ctx, store, p, d.Boxes)
}

// boxes puts the boxes of a sealed result into the map, by their SHA-256 in hex.
func boxes(ctx context.Context, store Store, p Purchase, into map[string][]byte) error {
	if p.SealedEvent == nil {
		return nil
	}
	var ev nostr.Event
	if err := json.Unmarshal(p.SealedEvent, &ev); err != nil {
		return fmt.Errorf("stored result: %w", err)
	}
	refs, err := blobRefs(ev.Tags)
	if err != nil {
		return err
	}
	for _, ref := range boxesOf(refs) {
		if into[ref.digest.Hex()], err = store.Content(ctx, ref.digest); err != nil {
			return err
		}
	}
	return nil
}
