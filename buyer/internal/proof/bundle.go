// Package proof gathers what shows others what was bought: the bundle of a receipt, that
// of a fee, and what a dispute needs. It verifies each receipt as a stranger would.
package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Evidence is what proves purchases, from a store that may be open for reading only.
type Evidence interface {
	Purchases(ctx context.Context, limit int) ([]purchase.Purchase, error)
	Feedback(ctx context.Context, requestID string) ([][]byte, error)
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
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

// Bundle gathers everything about a purchase that has its receipt, in the form
// that anyone can verify offline.
func Bundle(ctx context.Context, store Evidence, p purchase.Purchase) (*receipts.Bundle, error) {
	if p.ReceiptEvent == nil {
		return nil, ErrNoReceipt
	}
	return Work(ctx, store, p)
}

// Work is what there is of a purchase that has a result, with a receipt or without,
// as that of a free job: signed words and files, in the form of a bundle.
func Work(ctx context.Context, store Evidence, p purchase.Purchase) (*receipts.Bundle, error) {
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

	if profile.Of(p).AnyOutput(p) { // the tags of whoever knows NIP-90 alone name nothing that we fetched
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

// previousOf finds the provider's receipt before this one, if it was ours too. One of a
// key that the provider had before is left out: a reader who knows of no key change would
// take it for another provider's.
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
			if err != nil || hashing.Bytes([]byte(ev.Content)) != *rec.PreviousReceiptHash {
				continue
			}
			previous, err := receipts.ParseReceipt([]byte(ev.Content))
			return []byte(ev.Content), err == nil && previous.ProviderID == rec.ProviderID
		}
	}

	return nil, false
}

// EngagementBundle gathers what proves the fee of a purchase: ErrNoReceipt if it
// has no receipt of one. The policy is in it once the result has brought it.
func EngagementBundle(ctx context.Context, store Evidence, p purchase.Purchase) (*receipts.Bundle, error) {
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
