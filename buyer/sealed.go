package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// sealedResult keeps a result that came in boxes. They are fetched before
// anything is paid for them.
func (f *follower) sealedResult(ctx context.Context, p view, ev nostr.Event) error {
	if p.SealedEvent != nil {
		return nil
	}

	switch {
	case !p.Terms.Sealed() || p.Delivery() == receipts.DeliveryPlain:
		return f.reject(ev, purchase.Mismatch("result", "it is sealed, which was not agreed on"))
	case f.free != nil || p.Terms.Mode == receipts.ModeFree:
		return f.reject(ev, purchase.Mismatch("result", "it is sealed, and no payment of a free job opens it"))
	}

	d, err := f.c.checkResult(p, ev)
	if err != nil {
		return f.reject(ev, err)
	}
	fetching, cancel := context.WithTimeout(ctx, f.c.cfg.ReceiptTimeout)
	defer cancel()

	contents, _, err := f.fetch(fetching, d)
	if err != nil {
		return f.unfetched(ctx, ev, err)
	}
	raw, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	if p.Quote != nil { // before there is one, it is held against the one that asks for payment
		if err := receipts.CheckSealedEvent(raw, p.Provider, p.RequestID, hashing.Bytes(p.Quote)); err != nil {
			return f.reject(ev, purchase.Mismatch("result", text.Clean(err.Error())))
		}
	}

	f.early = !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace
	if err := f.c.cfg.Store.SetSealed(ctx, f.id, f.signed, contents); err != nil {
		return fmt.Errorf("store sealed result: %w", err)
	}
	f.say("provider", "sealed", 0, ev.Tags.Find("commitment")[1], fmt.Sprintf("%d bytes in boxes", blob.Bytes(blob.Boxes(d.blobs))))
	if p, err = f.view(ctx); err != nil {
		return err
	}
	if f.postpay != nil {
		return f.paymentRequired(ctx, p, *f.postpay)
	}

	return f.unseal(ctx, p)
}

// unseal opens the boxes once they are paid for, and takes what is in them as
// any result. A false box ends the purchase: nothing that could still come
// would mend it, and what we hold shows it to anybody.
func (f *follower) unseal(ctx context.Context, p view) error {
	if p.SealedEvent == nil || p.Output != nil || p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		return nil
	}
	o, err := Unseal(ctx, f.c.cfg.Store, p.Purchase)
	if err == nil {
		err = checkRevealed(p, o)
	}

	var bad *MismatchError
	switch {
	case errors.Is(err, receipts.ErrFalseBox), errors.As(err, &bad):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.c.cfg.Store.Close(ctx, f.id, StateFailed, "paid, and delivered a "+text.Clean(err.Error()))
	case err != nil:
		return fmt.Errorf("open the sealed result: %w", err)
	}

	f.say("buyer", "opened", 0, o.Seal.OutputHash.String(), sizes(o.Output, len(o.Contents)))
	return f.accept(ctx, p.SealedEvent, o.Output, append(o.Contents, o.Document))
}

// Opened is what was in the boxes of a sealed result.
type Opened struct {
	Seal     receipts.Seal
	Document []byte // SEAL.json
	Output   []byte // the canonical result
	Contents [][]byte
}

// Unseal opens the boxes of a purchase with the preimage that it paid for, and
// checks what is in them as any result is checked. Boxes that do not hold what
// was committed to are receipts.ErrFalseBox; a result that is none for the
// request is a *MismatchError.
func Unseal(ctx context.Context, store Evidence, p Purchase) (Opened, error) {
	var ev nostr.Event
	if err := json.Unmarshal(p.SealedEvent, &ev); err != nil {
		return Opened{}, fmt.Errorf("stored result: %w", err)
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
		box, err := store.Content(ctx, ref.Digest)
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

	terms := purchase.TermsOf(p)
	var inside []blob.Ref
	for i, part := range o.Seal.Contents {
		inside = append(inside, blob.Ref{Role: part.Role, Digest: part.Digest, Size: part.Size})
		if part.Role == receipts.RoleResult {
			o.Output = o.Contents[i]
		}
	}

	res, err := checkOutput(view{Purchase: p, Terms: terms}, &o.Seal.OutputHash, o.Output)
	if err != nil {
		return o, err
	}
	o.Output = res.Canonical
	if err := checkArtifacts(res, inside); err != nil {
		return o, err
	}
	p.Output = o.Output
	return o, checkExpected(purchase.View{Purchase: p, Terms: terms})
}
