package playnet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// SendPayment starts the payment of an invoice of this ledger. While it is in
// flight or after it succeeded, a repetition returns nil and moves nothing; after a
// failure it pays again. When it returns, a normal invoice is paid and a hold
// invoice is held. An error with a reason means that no money moved. Pay.Timeout is
// not used: there is no route to search.
func (w *Wallet) SendPayment(ctx context.Context, p payments.Pay) error {
	inv, err := checkPay(p)
	if err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	var refused error
	err = w.ledger.update(ctx, func(tx *sqlite.Tx, now time.Time) (err error) {
		refused, err = w.send(tx, now, p, inv.PaymentHash)
		return err
	})
	if err != nil {
		return fmt.Errorf("send payment: %w", unknownOutcome(err))
	}
	if refused != nil {
		return fmt.Errorf("send payment: %w", refused)
	}

	return nil
}

func checkPay(p payments.Pay) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(p.BOLT11)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if inv.Network != payments.Play {
		return nil, fmt.Errorf("%w: the invoice is for %s and this is play money", payments.ErrWrongNetwork, inv.Network)
	}
	if p.AmountMsats != inv.AmountMsats || p.AmountMsats < 1 {
		return nil, fmt.Errorf("%w: asked to pay %d msats of an invoice for %d", payments.ErrAmount, p.AmountMsats, inv.AmountMsats)
	}
	if err := payments.CheckMsats(p.FeeLimitMsats); err != nil {
		return nil, fmt.Errorf("fee limit: %w", err)
	}

	return inv, nil
}

// send writes the attempt. refused is a failure that is recorded as a failed
// payment; err undoes everything.
func (w *Wallet) send(tx *sqlite.Tx, now time.Time, p payments.Pay, hash payments.Hash) (refused, err error) {
	row, err := selectInvoice(tx, hash)
	if errors.Is(err, payments.ErrNotFound) {
		return nil, fmt.Errorf("%w: the payee is not on this ledger", payments.ErrNoRoute)
	}
	if err != nil {
		return nil, err
	}

	switch {
	case row.bolt11 != strings.ToLower(p.BOLT11):
		return nil, fmt.Errorf("%w: the payee made another invoice with this hash", payments.ErrInvoiceMismatch)
	case row.wallet == w.name:
		return nil, payments.ErrSelfPayment
	}

	old, err := selectPayment(tx, hash, w.name)
	if err == nil && old.state != payments.PaymentFailed {
		return nil, nil
	}
	if err != nil && !errors.Is(err, payments.ErrNotFound) {
		return nil, err
	}

	switch row.state {
	case payments.InvoiceHeld, payments.InvoiceSettled:
		return nil, payments.ErrAlreadyPaid
	case payments.InvoiceCanceled:
		return nil, canceledError(row)
	}

	attempt := paymentRow{hash: hash, payer: w.name, state: payments.PaymentInFlight, amountMsats: row.amountMsats, feeMsats: w.ledger.cfg.FeeMsats}
	balance, err := selectBalance(tx, w.name)
	if err != nil {
		return nil, err
	}

	switch {
	case attempt.feeMsats > p.FeeLimitMsats:
		refused = fmt.Errorf("%w: the fee is %d msats, the limit %d", payments.ErrNoRoute, attempt.feeMsats, p.FeeLimitMsats)
	case balance-attempt.feeMsats < attempt.amountMsats:
		refused = fmt.Errorf("%w: %d msats are needed, the wallet has %d", payments.ErrInsufficientFunds, attempt.amountMsats+attempt.feeMsats, balance)
	}

	if refused != nil {
		attempt.state, attempt.failure = payments.PaymentFailed, refused.Error()
		return refused, putPayment(tx, attempt)
	}
	return nil, w.ledger.begin(tx, now, row, attempt)
}

// LookupPayment returns a payment of the wallet in its current state, or
// ErrNotFound.
func (w *Wallet) LookupPayment(ctx context.Context, hash payments.Hash) (p payments.Payment, err error) {
	err = w.ledger.view(ctx, func(tx *sqlite.Tx) error {
		p, err = w.payment(tx, hash)
		return err
	})
	if err != nil {
		return payments.Payment{}, fmt.Errorf("look up payment: %w", err)
	}
	return p, nil
}

// TrackPayment waits until the payment has succeeded or failed, or ctx ends.
func (w *Wallet) TrackPayment(ctx context.Context, hash payments.Hash) (p payments.Payment, err error) {
	err = w.ledger.wait(ctx, func(tx *sqlite.Tx) (bool, error) {
		p, err = w.payment(tx, hash)
		return p.State.Terminal(), err
	})
	if err != nil {
		return payments.Payment{}, fmt.Errorf("track payment: %w", err)
	}
	return p, nil
}

func (w *Wallet) payment(tx *sqlite.Tx, hash payments.Hash) (payments.Payment, error) {
	row, err := selectPayment(tx, hash, w.name)
	if err != nil {
		return payments.Payment{}, err
	}

	p := payments.Payment{Hash: hash, State: row.state, AmountMsats: row.amountMsats, FeeMsats: row.feeMsats, FailureReason: row.failure}
	switch row.state {
	case payments.PaymentSucceeded:
		invoice, err := selectInvoice(tx, hash)
		if err != nil {
			return payments.Payment{}, err
		}
		p.Preimage = invoice.preimage
	case payments.PaymentFailed:
		p.FeeMsats = 0
	}

	return p, nil
}

// Balance adds up the wallet's money.
func (w *Wallet) Balance(ctx context.Context) (b payments.Balance, err error) {
	err = w.ledger.view(ctx, func(tx *sqlite.Tx) error {
		if b.SpendableMsats, err = selectBalance(tx, w.name); err != nil {
			return err
		}
		if b.ReservedMsats, err = sumReserved(tx, w.name); err != nil {
			return err
		}
		b.ReceivedMsats, err = sumReceived(tx, w.name)
		return err
	})
	if err != nil {
		return payments.Balance{}, fmt.Errorf("read balance: %w", err)
	}
	return b, nil
}
