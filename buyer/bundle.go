package buyer

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
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

// Evidence is what proves purchases, from a store that may be open for reading only.
type Evidence interface {
	Purchases(ctx context.Context, limit int) ([]Purchase, error)
	Feedback(ctx context.Context, requestID string) ([][]byte, error)
	Content(ctx context.Context, d hashing.Digest) ([]byte, error)
}

// Why there is nothing to show for a purchase.
var (
	// ErrNoReceipt: there is nothing to prove a purchase with.
	ErrNoReceipt = proof.ErrNoReceipt
	// ErrNothingPaid: there is nothing to dispute.
	ErrNothingPaid = proof.ErrNothingPaid
)

// BundleOf is [Client.Bundle] for a purchase already read, from a store that may
// be open for reading only.
func BundleOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	return proof.Bundle(ctx, store, p)
}

// WorkOf is what there is of a purchase that has a result, with a receipt or without,
// as that of a free job: signed words and files, in the form of a bundle.
func WorkOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	return proof.Work(ctx, store, p)
}

// EngagementBundleOf gathers what proves the fee of a purchase: [ErrNoReceipt] if it
// has no receipt of one. The policy is in it once the result has brought it.
func EngagementBundleOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Bundle, error) {
	return proof.EngagementBundle(ctx, store, p)
}

// DisputeOf gathers what was paid for a purchase and what came for it, in a form
// that anybody can judge offline. Of an encrypted purchase it discloses what was
// asked, agreed and answered in this job, and no key that opens more.
func DisputeOf(ctx context.Context, store Evidence, p Purchase) (*receipts.Dispute, error) {
	return proof.Dispute(ctx, store, p)
}

// Opened is what was in the boxes of a sealed result.
type Opened = result.Opened

// Unseal opens the boxes of a purchase with the preimage that it paid for, and
// checks what is in them as any result is checked. Boxes that do not hold what
// was committed to are [receipts.ErrFalseBox]; a result that is none for the
// request is a [*MismatchError].
func Unseal(ctx context.Context, store Evidence, p Purchase) (Opened, error) {
	return result.Unseal(ctx, store, p)
}
