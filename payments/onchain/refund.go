package onchain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
)

// Refunds go to an address and not to an invoice: what is owed on the chain is
// what came, which nobody knows when the address is named.

// refundVBytes is a transaction of five inputs and two outputs, in virtual bytes:
// what a refund is estimated at. A payee's coins are small, so that one may take
// several; what is not needed is not lost.
const refundVBytes = 420

// PlanRefund reads an address that a stranger named, and estimates what a payment
// to it costs. ErrBadRequest: no address of this chain; ErrSelfPayment: one that
// this wallet gave for a payment; ErrAlreadyPaid: this wallet paid it before;
// ErrNoRoute: the miners ask for more than the configured rate.
func (w *Wallet) PlanRefund(ctx context.Context, address string) (payments.ChainPlan, error) {
	node, err := w.Node(ctx)
	if err != nil {
		return payments.ChainPlan{}, err
	}
	u, err := destination.ParseURI(address, node.Network)
	if err != nil {
		return payments.ChainPlan{}, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}

	ours, err := w.cfg.Book.isOurs(ctx, u.Address)
	switch {
	case err != nil:
		return payments.ChainPlan{}, err
	case ours:
		return payments.ChainPlan{}, fmt.Errorf("%w: %s", payments.ErrSelfPayment, u.Address)
	}

	hash := addressHash(u.Address)
	if _, err := w.cfg.Book.send(ctx, hash); !errors.Is(err, payments.ErrNotFound) {
		return payments.ChainPlan{}, errors.Join(fmt.Errorf("%w: %s", payments.ErrAlreadyPaid, u.Address), err)
	}
	rate, err := w.feeRate(ctx)
	return payments.ChainPlan{Address: u.Address, Hash: hash, FeeMsats: rate * refundVBytes * msatsPerSat}, err
}

// RefundAddress gives a fresh address for money that should come back, and
// writes down since when it can have been paid.
func (w *Wallet) RefundAddress(ctx context.Context) (string, error) {
	_, height, err := w.cfg.Chain.Received(ctx, 1<<30)
	if err != nil {
		return "", err
	}
	address, err := w.freshAddress(ctx)
	if err != nil {
		return "", err
	}
	return address, w.cfg.Book.addRefundAddress(ctx, address, height)
}

// Refunded tells what came to an address of RefundAddress: settled once all that
// came has the configured confirmations, pending before. ErrNotFound: the address
// is not from here.
func (w *Wallet) Refunded(ctx context.Context, address string) (payments.Invoice, error) {
	height, at, err := w.cfg.Book.refundAddress(ctx, address)
	if err != nil {
		return payments.Invoice{}, err
	}
	outputs, _, err := w.cfg.Chain.Received(ctx, height-deepest)
	if err != nil {
		return payments.Invoice{}, err
	}

	seen, confirmed := paid(address, outputs, 0), paid(address, outputs, w.cfg.Confirmations)
	inv := payments.Invoice{PaymentHash: addressHash(address), State: payments.InvoiceOpen, PaidMsats: seen.sats * msatsPerSat, Outpoints: seen.outpoints()}
	switch {
	case seen.sats > 0 && seen.sats == confirmed.sats:
		inv.State, inv.SettledAt, inv.Final = payments.InvoiceSettled, time.Now().UTC(), true
	case seen.sats > 0:
		inv.State = payments.InvoicePending
	case time.Since(at) > lateFor:
		inv.State = payments.InvoiceCanceled
	}

	return inv, nil
}
