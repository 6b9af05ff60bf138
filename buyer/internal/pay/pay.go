// Package pay makes the one payment of a charge, and finds out what became of it. An
// invoice is never paid twice, whatever the wallet says and whenever we restart.
package pay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Timeout bounds the wallet's search for a route; the payment itself may be held for
// as long as the job takes.
const Timeout = time.Minute

const (
	// askAgain bounds a question to the wallet that is asked for people only.
	askAgain = 5 * time.Second
	// feeGone is when a payment that the wallet does not know was never sent: what we
	// last told the wallet has reached it by then, or never will.
	feeGone = 10 * Timeout
	// neverSent is why a payment failed that no wallet was told to make.
	neverSent = "it was never sent"
	// lookAgain is how often a payment that the owner keeps back asks whether it may go.
	lookAgain = time.Second
)

// ErrOtherWallet: a payment was begun with another wallet than the configured one,
// which knows nothing of it. Paying from here could pay twice, and what this wallet
// says of the payment says nothing of the other. Nothing was sent; the budget stays
// reserved.
var ErrOtherWallet = errors.New("this payment was begun with another wallet than the configured one, which can neither pay it nor say what became of it")

// ErrForgotten: the wallet was told to pay, and says now that it knows no such
// payment; or it failed when told once more, which says nothing of the time before. A
// wallet that was restored, or whose payments were deleted, answers so of a payment
// that went through. Nothing more is sent, and the budget stays reserved.
var ErrForgotten = errors.New("the wallet was told to pay, and does not know any more what became of it, so it may be paid: the budget stays reserved, and nothing is paid in its place")

// Store keeps what a payment may cost and what became of it. Every method is one
// durable transaction.
type Store interface {
	// Reserve is for the attempt of either purpose. It moves requested -> paying: in
	// one transaction it stores quote, invoice and acceptance and reserves amount + fee
	// limit against the purchase's own maximum and the limits; a charge for a plain
	// NIP-90 provider's invoice has neither quote nor acceptance.
	// *[purchase.BudgetError], [purchase.ErrSecondPayment]. The budget day is the day
	// of the attempt's ReservedAt (UTC).
	Reserve(ctx context.Context, requestID string, c purchase.Charge, l purchase.Limits) error
	// SetSent records, before the wallet is told so, that it is to pay the attempt
	// with this hash. Each time counts. [purchase.ErrNeverSent] if the purchase was
	// canceled before the first time, so that it is not paid by anybody.
	SetSent(ctx context.Context, requestID string, hash payments.Hash) error
	// Paid moves paying -> paid, or after an engagement fee -> requested: the
	// reservation becomes spending of amount + fee; the rest is free again. Repeating
	// it with the same payment is fine.
	Paid(ctx context.Context, requestID string, p payments.Payment) error
	// Unpaid records that the payment failed for good: the reservation is released and
	// the purchase moves to failed or canceled with the reason.
	Unpaid(ctx context.Context, requestID string, p payments.Payment, to purchase.State, reason string) error
}

// Payer pays from one wallet.
type Payer struct {
	Wallet payments.Payer // nil: only free jobs are bought
	Store  Store
	Limits purchase.Limits
	// MaySpend is asked before a wallet is told of a payment.
	MaySpend payments.MaySpend
	Log      *slog.Logger

	node atomic.Pointer[payments.Node] // the wallet's, once it has said who it is
}

// Node asks the wallet who it is.
func (p *Payer) Node(ctx context.Context) (payments.Node, error) {
	node, err := p.Wallet.Node(ctx)
	if err != nil {
		return node, fmt.Errorf("ask the wallet who it is: %w", err)
	}
	p.node.Store(&node)
	return node, nil
}

// Network is the wallet's; "" without one.
func (p *Payer) Network(ctx context.Context) (payments.Network, error) {
	if p.Wallet == nil {
		return "", nil
	}
	node, err := p.Node(ctx)
	return node.Network, err
}

// Name names the wallet that a payment is made from. A wallet that has said so once is
// not asked again.
func (p *Payer) Name(ctx context.Context) (string, error) {
	if node := p.node.Load(); node != nil {
		return node.Wallet(), nil
	}
	node, err := p.Node(ctx)
	return node.Wallet(), err
}

// Reserve makes a charge durable that is to be paid, within the limits.
func (p *Payer) Reserve(ctx context.Context, requestID string, c purchase.Charge) error {
	return p.Store.Reserve(ctx, requestID, c, p.Limits)
}

// Outcome sees the payment of a purchase that is due through, until the wallet knows
// how it ended. It may be called again after a restart: a state that is not known is
// asked for until it is (B1-B6). Nothing is sent before told is closed, nor while the owner
// keeps all spending back, which halted hears once.
func (p *Payer) Outcome(ctx context.Context, of purchase.Purchase, told <-chan struct{}, halted func(why error)) (payments.Payment, error) {
	due, text := of.Due()
	isHalted := false
	for pause := time.Second; ; {
		pay, err := p.attempt(ctx, of, due, text, told)
		if err == nil && due.FailureUnsure(pay) {
			err = fmt.Errorf("%w; of the last time it says: %s", ErrForgotten, pay.FailureReason)
		}
		if err == nil && pay.State.Terminal() || errors.Is(err, ErrOtherWallet) || errors.Is(err, ErrForgotten) {
			return pay, err
		}
		if ctx.Err() != nil {
			return payments.Payment{}, ctx.Err()
		}

		if errors.Is(err, payments.ErrSpendingStopped) {
			if !isHalted {
				isHalted = true
				halted(err)
			}
			if pay, over := lapsed(*due, text); over {
				return pay, nil
			}
			pause = lookAgain
			if backoff.Wait(ctx, &pause, lookAgain) != nil {
				return payments.Payment{}, ctx.Err()
			}
			continue
		}

		isHalted = false
		p.Log.Warn("payment state not known, asking again", "request", of.RequestID, "payment_hash", due.PaymentHash, "in", pause, "err", err)
		if backoff.Wait(ctx, &pause, 30*time.Second) != nil {
			return payments.Payment{}, ctx.Err()
		}
	}
}

// attempt looks before it sends: only a payment the wallet never heard of is sent, and
// not before the provider can know what it is for: it issues the receipt as soon as it
// is paid, and one that came before the acceptance does not name it. That it is sent is
// written down before, and how often. A payment that was not sent before its purchase
// was canceled is not sent any more.
func (p *Payer) attempt(ctx context.Context, of purchase.Purchase, due *purchase.Attempt, text string, told <-chan struct{}) (payments.Payment, error) {
	hash := due.PaymentHash
	pay, err := p.Wallet.LookupPayment(ctx, hash)
	switch {
	case err == nil && pay.State.Terminal():
		return pay, nil
	case err == nil:
		return p.Wallet.TrackPayment(ctx, hash)
	case !errors.Is(err, payments.ErrNotFound):
		return payments.Payment{}, fmt.Errorf("look up payment: %w", err)
	}

	if err := p.BegunHere(ctx, *due); err != nil {
		return payments.Payment{}, err
	}
	if of.GivenUp() {
		return payments.Payment{}, ErrForgotten
	}

	select {
	case <-told:
	case <-ctx.Done():
		return payments.Payment{}, ctx.Err()
	}

	if err := p.MaySpend.Ask(); err != nil {
		return payments.Payment{}, err
	}
	switch err := p.Store.SetSent(ctx, of.RequestID, hash); {
	case errors.Is(err, purchase.ErrNeverSent):
		return payments.Payment{Hash: hash, State: payments.PaymentFailed, AmountMsats: due.AmountMsats, FailureReason: neverSent}, nil
	case err != nil:
		return payments.Payment{}, fmt.Errorf("record that the payment is sent: %w", err)
	}
	var before time.Time
	if due.Sent > 0 {
		before = due.ReservedAt
	}
	due.Sent++

	err = p.Wallet.SendPayment(ctx, payments.Pay{
		BOLT11: text, AmountMsats: due.AmountMsats, FeeLimitMsats: due.FeeLimitMsats, Timeout: Timeout, ToldAt: before,
	})
	if payments.NeverSent(err) {
		return p.afterRefusal(ctx, *due, err)
	}
	if err != nil {
		return payments.Payment{}, fmt.Errorf("send payment: %w", err)
	}
	return p.Wallet.TrackPayment(ctx, hash)
}

// lapsed is the end of a payment whose invoice expired before any wallet was told of it:
// it cannot be paid any more, and was not.
func lapsed(due purchase.Attempt, text string) (pay payments.Payment, over bool) {
	inv, err := bolt11.Decode(text)
	if err != nil || due.Sent > 0 || time.Now().Before(inv.ExpiresAt()) {
		return pay, false
	}
	return payments.Payment{
		Hash: due.PaymentHash, State: payments.PaymentFailed, AmountMsats: due.AmountMsats,
		FailureReason: neverSent + ": " + payments.ErrSpendingStopped.Error() + ", and the invoice has expired",
	}, true
}

// afterRefusal asks the wallet once more before it believes that nothing was sent.
func (p *Payer) afterRefusal(ctx context.Context, due purchase.Attempt, refusal error) (payments.Payment, error) {
	pay, err := p.Wallet.LookupPayment(ctx, due.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return payments.Payment{
			Hash: due.PaymentHash, State: payments.PaymentFailed,
			AmountMsats: due.AmountMsats, FailureReason: refusal.Error(),
		}, nil
	case err != nil:
		return payments.Payment{}, err
	}
	return pay, nil
}

// Record stores that the payment of a purchase succeeded, if it is the one that is due.
func (p *Payer) Record(ctx context.Context, of purchase.Purchase, pay payments.Payment) error {
	due, _ := of.Due()
	if due == nil || pay.Hash != due.PaymentHash || !pay.Shown() {
		return fmt.Errorf("the wallet reports a payment that is not ours: %w", purchase.ErrConflict)
	}
	if err := p.Store.Paid(ctx, of.RequestID, pay); err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	return nil
}

// Return stores that the payment of a purchase came back, or was never made, and how the
// purchase ends by that.
func (p *Payer) Return(ctx context.Context, requestID string, pay payments.Payment, to purchase.State, reason string) error {
	return p.Store.Unpaid(ctx, requestID, pay, to, reason)
}

// Delay says in words why a payment does not end.
func (p *Payer) Delay(ctx context.Context, hash payments.Hash) string {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()

	text := "still, and no word from the provider; the budget stays reserved until the wallet says how it ended"
	if pay, err := p.Wallet.LookupPayment(ctx, hash); err == nil && pay.Warning != "" {
		text += "; " + pay.Warning
	}
	return text
}

// BegunHere is nil if a payment that our wallet does not know may be sent by it:
// [ErrOtherWallet] if another has perhaps sent it.
func (p *Payer) BegunHere(ctx context.Context, a purchase.Attempt) error {
	if a.Wallet == "" {
		return nil // recorded before wallets were
	}
	wallet, err := p.Name(ctx)
	if err == nil && wallet != a.Wallet {
		err = fmt.Errorf("%w: that is %s, and this one is %s", ErrOtherWallet, a.Wallet, wallet)
	}
	return err
}

// Lost reports whether the configured wallet cannot say what became of an attempt: it
// was begun with another, or this one was told to pay and has forgotten it.
func (p *Payer) Lost(ctx context.Context, a purchase.Attempt) (bool, error) {
	if p.Wallet == nil {
		return true, nil
	}
	if err := p.BegunHere(ctx, a); err != nil {
		if errors.Is(err, ErrOtherWallet) {
			return true, nil
		}
		return false, err
	}
	if a.Sent == 0 {
		return false, nil
	}

	pay, err := p.Wallet.LookupPayment(ctx, a.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look up payment: %w", err)
	}
	return a.FailureUnsure(pay), nil
}

// Now asks the wallet once how a payment stands.
func (p *Payer) Now(ctx context.Context, a purchase.Attempt) (payments.Payment, error) {
	pay, err := p.Wallet.LookupPayment(ctx, a.PaymentHash)
	unsure := err == nil && a.FailureUnsure(pay)
	if !errors.Is(err, payments.ErrNotFound) && !unsure {
		return pay, err
	}

	pay = payments.Payment{Hash: a.PaymentHash, State: payments.PaymentInFlight, AmountMsats: a.AmountMsats}
	if a.Sent == 0 && time.Since(a.ReservedAt) > feeGone && p.BegunHere(ctx, a) == nil {
		pay.State, pay.FailureReason = payments.PaymentFailed, neverSent
	}
	return pay, nil
}
