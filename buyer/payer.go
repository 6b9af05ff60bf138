package buyer

import (
	"context"
	"errors"
	"fmt"
)

// ErrOtherWallet: a payment was begun with another wallet than the configured one,
// which knows nothing of it. Paying from here could pay twice, and what this wallet
// says of the payment says nothing of the other. Nothing was sent; the budget stays
// reserved.
var ErrOtherWallet = errors.New("this payment was begun with another wallet than the configured one; configure that wallet again, and lightwork buyer resume goes on, or give it up with lightwork buyer cancel --wallet-lost")

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
