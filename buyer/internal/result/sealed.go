package result

import (
	"context"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// Sealed reports whether a result event commits to a result in boxes. One that should,
// by the quote or by what came before, and does not is refused.
func Sealed(p purchase.Purchase, ev nostr.Event) (bool, error) {
	commitment, err := blob.Commitment(ev)
	switch {
	case err != nil:
		return false, err
	case commitment != nil:
		return true, nil
	case p.Delivery() == receipts.DeliverySealed || p.SealedEvent != nil:
		return false, purchase.Mismatch("result", "it is not sealed, as the quote promised")
	}
	return false, nil
}

// TakeSealed checks the event of a result in boxes and fetches them, before anything is
// paid for them. raw is the event as it was signed; free says that nothing will be paid.
// It returns the boxes, and how many bytes they have.
func (d *Desk) TakeSealed(ctx context.Context, p purchase.View, ev nostr.Event, raw []byte, free bool) (boxes [][]byte, bytes int64, err error) {
	switch {
	case !p.Terms.Sealed() || p.Delivery() == receipts.DeliveryPlain:
		return nil, 0, purchase.Mismatch("result", "it is sealed, which was not agreed on")
	case free || p.Terms.Mode == receipts.ModeFree:
		return nil, 0, purchase.Mismatch("result", "it is sealed, and no payment of a free job opens it")
	}

	event, err := d.check(p, profile.Of(p.Purchase), ev)
	if err != nil {
		return nil, 0, err
	}
	if boxes, _, err = d.fetch(ctx, event); err != nil {
		return nil, 0, err
	}
	if p.Quote != nil { // before there is one, it is held against the one that asks for payment
		if err := receipts.CheckSealedEvent(raw, p.Provider, p.RequestID, hashing.Bytes(p.Quote)); err != nil {
			return nil, 0, purchase.Mismatch("result", text.Clean(err.Error()))
		}
	}
	return boxes, blob.Bytes(blob.Boxes(event.refs)), nil
}

// KeepSealed stores the event of a result in boxes, and the boxes.
func (d *Desk) KeepSealed(ctx context.Context, requestID string, event []byte, boxes [][]byte) error {
	if err := d.Store.SetSealed(ctx, requestID, event, boxes); err != nil {
		return fmt.Errorf("store sealed result: %w", err)
	}
	return nil
}

// Opened is what was in the boxes of a sealed result.
type Opened struct {
	Seal     receipts.Seal
	Document []byte // SEAL.json
	Output   []byte // the canonical result
	Contents [][]byte
}

// Delivery is what was in the boxes, as any result is kept.
func (o Opened) Delivery() Delivery {
	return Delivery{o.Output, o.Seal.OutputHash, append(o.Contents, o.Document), Size(o.Output, len(o.Contents))}
}

// IsFalse reports whether an error of [Desk.Open] says that what was paid for is not
// what came: nothing that could still come would mend it, and what we hold shows it to
// anybody.
func IsFalse(err error) bool {
	return errors.Is(err, receipts.ErrFalseBox) || errors.As(err, new(*purchase.MismatchError))
}

// Open opens the boxes of a purchase as [Unseal] does, and holds what is in them against
// what its provider revealed before it was paid.
func (d *Desk) Open(ctx context.Context, p purchase.View) (Opened, error) {
	o, err := unseal(ctx, d.Store, p)
	if err != nil {
		return o, err
	}
	return o, checkRevealed(p, o)
}

// Unseal opens the boxes of a purchase with the preimage that it paid for, and
// checks what is in them as any result is checked. Boxes that do not hold what
// was committed to are [receipts.ErrFalseBox]; a result that is none for the
// request is a [*purchase.MismatchError].
func Unseal(ctx context.Context, from Contents, p purchase.Purchase) (Opened, error) {
	return unseal(ctx, from, purchase.ViewOf(p))
}

func unseal(ctx context.Context, from Contents, p purchase.View) (Opened, error) {
	ev, err := purchase.EventOf(p.SealedEvent)
	if err != nil {
		return Opened{}, err
	}
	commitment, err := blob.Commitment(ev)
	if err != nil || commitment == nil {
		return Opened{}, fmt.Errorf("stored result: no commitment: %w", err)
	}
	refs, err := blob.Refs(ev.Tags)
	if err != nil {
		return Opened{}, err
	}

	var boxes [][]byte
	for _, ref := range blob.Boxes(refs) {
		box, err := from.Content(ctx, ref.Digest)
		if err != nil {
			return Opened{}, err
		}
		boxes = append(boxes, box)
	}

	key, err := receipts.NewSealKey(p.Payment.Preimage, hashing.Bytes(p.Quote), p.RequestID, *commitment)
	if err != nil {
		return Opened{}, err
	}
	var o Opened
	if o.Seal, o.Document, o.Contents, err = key.OpenAll(boxes); err != nil {
		return o, err
	}

	var parts []blob.Ref
	for i, part := range o.Seal.Contents {
		parts = append(parts, blob.Ref{Role: part.Role, Digest: part.Digest, Size: part.Size})
		if part.Role == receipts.RoleResult {
			o.Output = o.Contents[i]
		}
	}

	res, err := checkOutput(p, &o.Seal.OutputHash, o.Output)
	if err != nil {
		return o, err
	}
	o.Output = res.Canonical
	if err := checkArtifacts(res, parts); err != nil {
		return o, err
	}
	p.Output = o.Output
	return o, checkExpected(p)
}

// checkRevealed holds an opened result against what its provider revealed before
// it was paid: both its seal and the output itself.
func checkRevealed(p purchase.View, o Opened) error {
	if p.Member == nil || p.Member.Revealed == nil {
		return nil
	}

	s, req, err := p.Terms.Job()
	if err != nil {
		return err
	}
	res, err := s.ParseResult(o.Output)
	if err != nil {
		return err
	}
	got, err := req.AgreementHash(res)
	if err != nil {
		return err
	}
	if got != *p.Member.Revealed || o.Seal.AgreementHash == nil || *o.Seal.AgreementHash != got {
		return purchase.Mismatch("result", "its agreement_hash is not the one that was revealed before it was paid")
	}
	return nil
}
