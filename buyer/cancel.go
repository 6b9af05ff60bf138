package buyer

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer/internal/flow"
)

// ErrWalletHere: the wallet that pays for the purchase is the configured one, so it
// can be asked.
var ErrWalletHere = flow.ErrWalletHere

// Cancel asks the provider to stop. What happens to the money is then the
// provider's word (the quote's cancellation) and, with a held payment, the
// wallet's: Follow goes on until that is known.
func (c *Client) Cancel(ctx context.Context, requestID string) error {
	return c.flow.Cancel(ctx, requestID)
}

// GiveUp takes a purchase off the open ones whose wallet is lost for good, or has lost
// its records of the payment. That is the word of whoever calls: the payment may have
// gone through, or may yet. So it stays begun, all that it may cost stays reserved of
// that day's budget, and nothing is paid in its place. The provider is asked to stop.
// Once the same wallet is configured again, Follow goes on.
func (c *Client) GiveUp(ctx context.Context, requestID string) error {
	return c.flow.GiveUp(ctx, requestID)
}

// EndFee ends a purchase that was dropped while its engagement fee was under way, if
// the wallet knows by now what became of that. Otherwise the purchase stays open, to
// be looked at another time: a provider that holds on to a payment must not hold up
// others.
func (c *Client) EndFee(ctx context.Context, requestID string) error {
	return c.flow.EndFee(ctx, requestID)
}

// Drop ends a purchase that nothing was paid for, with the reason, and tells its
// provider by a cancellation that was signed before. ErrConflict if its payment was
// begun, or it has ended: nothing is stored then.
func (c *Client) Drop(ctx context.Context, requestID, why string, cancellation []byte) error {
	return c.flow.Drop(ctx, requestID, why, cancellation)
}

// SendCancellation publishes the cancellation that is stored with a purchase, if
// there is one. It spares the provider work; that it arrives is not needed.
func (c *Client) SendCancellation(ctx context.Context, requestID string) error {
	return c.flow.SendCancellation(ctx, requestID)
}
