package buyer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/payments"
)

// ErrOtherWallet: a payment was begun with another wallet than the configured one,
// which knows nothing of it. Paying from here could pay twice, and what this wallet
// says of the payment says nothing of the other. Nothing was sent; the budget stays
// reserved.
var ErrOtherWallet = errors.New("this payment was begun with another wallet than the configured one, which can neither pay it nor say what became of it")

// paysFrom names the wallet that a payment is made from. A wallet that has said so
// once is not asked again.
func (c *Client) paysFrom(ctx context.Context) (string, error) {
	if node := c.payer.Load(); node != nil {
		return node.Wallet(), nil
	}
	node, err := c.cfg.Wallet.Node(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the wallet who it is: %w", err)
	}
	c.payer.Store(&node)
	return node.Wallet(), nil
}

// begunHere is nil if a payment that our wallet does not know may be sent by it:
// ErrOtherWallet if another has perhaps sent it.
func (c *Client) begunHere(ctx context.Context, a Attempt) error {
	if a.Wallet == "" {
		return nil // recorded before wallets were
	}
	wallet, err := c.paysFrom(ctx)
	if err == nil && wallet != a.Wallet {
		err = fmt.Errorf("%w: that is %s, and this one is %s", ErrOtherWallet, a.Wallet, wallet)
	}
	return err
}

// ErrPaymentForgotten: the wallet was told to pay, and says now that it knows no such
// payment; or it failed when told once more, which says nothing of the time before. A
// wallet that was restored, or whose payments were deleted, answers so of a payment
// that went through. Nothing more is sent, and the budget stays reserved.
var ErrPaymentForgotten = errors.New("the wallet was told to pay, and does not know any more what became of it, so it may be paid: the budget stays reserved, and nothing is paid in its place")

// failureUnsure reports whether a failed payment may have gone through all the same:
// the wallet was told to pay more than once, and speaks of the last time.
func (a *Attempt) failureUnsure(pay payments.Payment) bool {
	return pay.State == payments.PaymentFailed && a.Sent > 1
}

// forgotten reports whether the configured wallet does not know what became of an
// attempt that it was told to pay.
func (c *Client) forgotten(ctx context.Context, a Attempt) (bool, error) {
	if a.Sent == 0 {
		return false, nil
	}

	pay, err := c.cfg.Wallet.LookupPayment(ctx, a.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look up payment: %w", err)
	}
	return a.failureUnsure(pay), nil
}
