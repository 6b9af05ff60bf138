package onchain

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// target is where a payment goes, and what it is known by.
type target struct {
	hash    payments.Hash
	output  bolt11.Fallback
	address string
	label   string    // of the transaction in lnd: what it pays for
	expires time.Time // zero: never
}

// checkPay reads what is to be paid and holds it against what was meant.
func (w *Wallet) checkPay(ctx context.Context, pay payments.Pay) (target, error) {
	if err := payments.CheckMsats(pay.FeeLimitMsats); err != nil {
		return target{}, fmt.Errorf("fee limit: %w", err)
	}
	node, err := w.Node(ctx)
	if err != nil {
		return target{}, err
	}
	if destination.RailOf(pay.BOLT11) == payments.RailOnChain {
		return readURI(pay, node)
	}
	return readInvoice(pay, node)
}

func readInvoice(pay payments.Pay, node payments.Node) (target, error) {
	inv, err := bolt11.Decode(pay.BOLT11)
	if err != nil {
		return target{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}

	switch {
	case inv.AmountMsats != pay.AmountMsats || pay.AmountMsats < 1:
		return target{}, fmt.Errorf("%w: asked to pay %d msats, the invoice says %d", payments.ErrAmount, pay.AmountMsats, inv.AmountMsats)
	case inv.Network.OnChain() != node.Network:
		return target{}, fmt.Errorf("%w: the invoice is for %s, lnd is on %s", payments.ErrWrongNetwork, inv.Network, node.Network)
	case inv.Payee == node.PubKey:
		return target{}, fmt.Errorf("%w: %s", payments.ErrSelfPayment, inv.PaymentHash)
	}

	address, err := inv.ChainAddress()
	if err != nil {
		return target{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	label := "lightwork " + inv.PaymentHash.String()
	if inv.DescriptionHash != nil {
		label = "lightwork " + inv.DescriptionHash.Hex()
	}
	return target{hash: inv.PaymentHash, output: inv.Fallbacks[0], address: address, label: label, expires: inv.ExpiresAt()}, nil
}

func readURI(pay payments.Pay, node payments.Node) (target, error) {
	u, err := destination.ParseURI(pay.BOLT11, node.Network)
	if err != nil {
		return target{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if u.Sats*msatsPerSat != pay.AmountMsats || pay.AmountMsats < 1 {
		return target{}, fmt.Errorf("%w: asked to pay %d msats, the URI says %d sat", payments.ErrAmount, pay.AmountMsats, u.Sats)
	}
	hash := addressHash(u.Address)
	return target{hash: hash, output: u.To, address: u.Address, label: "lightwork refund " + hash.String()}, nil
}

// addressHash is what a payment to an address alone is known by. It is of the
// address, whatever the amount: an address that is named twice is paid once.
func addressHash(address string) payments.Hash {
	return payments.Hash(sha256.Sum256([]byte("lightwork/address/v1" + address)))
}
