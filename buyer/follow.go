package buyer

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer/internal/flow"
)

// Errors with which Follow returns while the purchase is still open, and how one ends
// badly.
var (
	// ErrIncomplete: the payment succeeded, the result or the receipt has not come.
	ErrIncomplete = flow.ErrIncomplete
	// ErrNoRelay: no relay served our subscription.
	ErrNoRelay = flow.ErrNoRelay
	// ErrUnasked: the result is here, and the provider has not asked to be paid for it.
	ErrUnasked = flow.ErrUnasked
	// ErrFailed: the purchase ended without what was bought; Purchase.Reason says why.
	ErrFailed = flow.ErrFailed
)

// Follow carries a purchase from wherever it stands to its end: it may be
// called for a new purchase, or after a crash at any point. It returns the
// purchase as stored; an error means it ended badly or is still open.
//
// ErrPanelOpen: the purchase belongs to a panel that has not decided yet; whoever
// follows that panel follows it.
func (c *Client) Follow(ctx context.Context, requestID string, tell func(Progress)) (Purchase, error) {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return Purchase{}, err
	}
	if p.Member != nil && p.Member.Open {
		return Purchase{}, fmt.Errorf("%s: %w", p.Member.Panel, ErrPanelOpen)
	}

	return c.flow.Follower(requestID, tell).Follow(ctx)
}
