package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Bundle gathers everything about a purchase that has its receipt, in the form
// that anyone can verify offline.
func (c *Client) Bundle(ctx context.Context, requestID string) (*receipts.Bundle, error) {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return nil, err
	}
	return BundleOf(ctx, c.cfg.Store, p)
}

// ErrNoReceipt: there is nothing to prove a purchase with.
var ErrNoReceipt = errors.New("this purchase has no receipt")

// stored is an event as the store has it, and where it goes in what leaves the
// node: all of it, and its content if that is a part of its own.
type stored struct {
	to      *[]byte
	raw     []byte // nil: there is none
	content *[]byte
}

// gather puts events where they go, in the one form of a bundle.
func gather(events ...stored) error {
	for _, s := range events {
		if s.raw == nil {
			continue
		}
		ev, err := receipts.ParseEvent(s.raw, purchase.MaxEventBytes)
		if err != nil {
			return fmt.Errorf("stored event: %w", err)
		}
		*s.to = ev.JSON()
		if s.content != nil {
			*s.content = []byte(ev.Content)
		}
	}

	return nil
}

// BundleOf is Client.Bundle for a purchase already read, from a store that may
// be open for reading only.
func BundleOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	if p.ReceiptEvent == nil {
		return nil, ErrNoReceipt
	}
	return WorkOf(ctx, store, p)
}

// WorkOf is what there is of a purchase that has a result, with a receipt or without,
// as that of a free job: signed words and files, in the form of a bundle.
func WorkOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	if p.ResultEvent == nil {
		return nil, ErrNoReceipt
	}
	b := &receipts.Bundle{Quote: p.Quote, Inputs: p.Inputs, Result: p.Output, Artifacts: map[string][]byte{}}
	if err := gather(
		stored{&b.ReceiptEvent, p.ReceiptEvent, &b.Receipt},
		stored{&b.Request, p.Request, nil},
		stored{&b.ResultEvent, p.ResultEvent, nil},
		stored{&b.Acceptance, p.Acceptance, nil},
	); err != nil {
		return nil, err
	}

	if p.Plain && p.Quote == nil { // the tags of whoever knows NIP-90 alone name nothing that we fetched
		return b, nil
	}
	var result nostr.Event
	if err := json.Unmarshal(p.ResultEvent, &result); err != nil {
		return nil, fmt.Errorf("stored result: %w", err)
	}
	refs, err := blob.Refs(result.Tags)
	if err != nil {
		return nil, err
	}
	if commitment, err := blob.Commitment(result); err != nil {
		return nil, err
	} else if commitment != nil {
		if b.Seal, err = store.Content(ctx, *commitment); err != nil {
			return nil, fmt.Errorf("%s: %w", receipts.FileSeal, err)
		}
		seal, err := receipts.ParseSeal(b.Seal)
		if err != nil {
			return nil, err
		}
		for _, part := range seal.Contents {
			refs = append(refs, blob.Ref{Role: part.Role, Digest: part.Digest})
		}
	}

	for _, ref := range refs {
		data, err := store.Content(ctx, ref.Digest)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", ref.Role, ref.Digest, err)
		}

		switch ref.Role {
		case "replay":
			b.Replay = data
		case "policy":
			b.Policy = data
		case "artifact":
			b.Artifacts[ref.Digest.Hex()] = data
		}
	}

	b.PRSummary = summaryOf(b)
	if q, err := receipts.ParseQuote(p.Quote); err == nil && q.Mode != receipts.ModeFree && q.PaymentHash == nil {
		if b.QuoteEvent, err = demandOf(ctx, store, p.RequestID, p.Quote, p.BOLT11); err != nil {
			return nil, err
		}
	}

	if rec, err := receipts.ParseReceipt(b.Receipt); err == nil && rec.AcceptanceEventID == nil {
		b.Acceptance = nil // it came too late: the receipt does not claim it
	}
	if previous, ok := previousOf(ctx, store, b.Receipt); ok {
		b.Previous = previous
	}
	return b, nil
}

// summaryMax is how large a PR_SUMMARY.md beside the other files may be, in
// bytes. A larger one is an artifact like any other.
const summaryMax = 1 << 20

// summaryOf is the artifact in which a job that changed a repository tells what
// it did, where a reader looks for it; nil without one.
func summaryOf(b *receipts.Bundle) []byte {
	var result struct {
		Artifacts []schemas.SandboxArtifact `json:"artifacts"`
	}
	if err := json.Unmarshal(b.Result, &result); err != nil {
		return nil // another job type may have artifacts of another form
	}

	for _, a := range result.Artifacts {
		if path.Base(a.Path) == receipts.FilePRSummary && a.SizeBytes <= summaryMax {
			return b.Artifacts[a.SHA256.Hex()]
		}
	}
	return nil
}

// previousWithin is how many of our latest purchases are searched for the
// receipt before one: the chain is no required claim.
const previousWithin = 100

// previousOf finds the provider's receipt before this one, if it was ours too.
func previousOf(ctx context.Context, store Evidence, doc []byte) ([]byte, bool) {
	rec, err := receipts.ParseReceipt(doc)
	if err != nil || rec.PreviousReceiptHash == nil {
		return nil, false
	}
	all, err := store.Purchases(ctx, previousWithin)
	if err != nil {
		return nil, false
	}

	for _, other := range all {
		signed := [][]byte{other.ReceiptEvent}
		if other.Engagement != nil {
			signed = append(signed, other.Engagement.ReceiptEvent)
		}
		for _, raw := range signed {
			ev, err := receipts.ParseEvent(raw, purchase.MaxEventBytes)
			if err == nil && hashing.Bytes([]byte(ev.Content)) == *rec.PreviousReceiptHash {
				return []byte(ev.Content), true
			}
		}
	}

	return nil, false
}

// ErrNothingPaid: there is nothing to dispute.
var ErrNothingPaid = errors.New("nothing was paid for this purchase")

// DisputeOf gathers what was paid for a purchase and what came for it, in a form
// that anybody can judge offline. Of an encrypted purchase it discloses what was
// asked, agreed and answered in this job, and no key that opens more.
func DisputeOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Dispute, error) {
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
	if pay == nil || pay.State != payments.PaymentSucceeded || pay.Outpoints != "" {
		return nil
	}
	return []byte(pay.Preimage.String() + "\n")
}

// boxes puts the boxes of a sealed result into the map, by their SHA-256 in hex.
func boxes(ctx context.Context, store Evidence, p Purchase, into map[string][]byte) error {
	if p.SealedEvent == nil {
		return nil
	}
	var ev nostr.Event
	if err := json.Unmarshal(p.SealedEvent, &ev); err != nil {
		return fmt.Errorf("stored result: %w", err)
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
