package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// LookupPayment returns a payment of the wallet in its current state. ErrNotFound:
// the service does not know it, and no request of ours is pending.
func (c *Client) LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	p, err := c.lookupPayment(ctx, hash)
	if err != nil {
		return payments.Payment{}, fmt.Errorf("look up payment: %w", err)
	}
	return p, nil
}

func (c *Client) lookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	t, err := c.lookup(ctx, hash)
	if err == nil && t.Type != typeOutgoing {
		err = payments.ErrNotFound
	}
	if err != nil && !errors.Is(err, payments.ErrNotFound) {
		return payments.Payment{}, err
	}
	found := err == nil
	var p payments.Payment
	if found {
		if p = payment(t, hash); p.State == payments.PaymentSucceeded {
			return p, nil
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	a := c.attempts[hash]
	switch {
	case a != nil && a.ended && a.err == nil:
		return a.result, nil // its preimage proves it, whatever the service reports now
	case found && p.State == payments.PaymentFailed && a != nil && !a.ended && time.Now().Before(a.until):
		p.State, p.FailureReason = payments.PaymentUnknown, "" // the failure belongs to an earlier attempt
		return p, nil
	case found:
		return p, nil
	case a != nil && a.ended && isDefinite(a.err):
		return payments.Payment{Hash: hash, State: payments.PaymentFailed, AmountMsats: a.amountMsats, FailureReason: a.err.Error()}, nil
	case a != nil && time.Now().Before(a.until):
		return payments.Payment{Hash: hash, State: payments.PaymentUnknown, AmountMsats: a.amountMsats}, nil
	}

	return payments.Payment{}, payments.ErrNotFound
}

// payment converts the state of a payment. It counts as succeeded only if the
// preimage proves it.
func payment(t transaction, hash payments.Hash) payments.Payment {
	p := payments.Payment{Hash: hash, State: payments.PaymentUnknown, AmountMsats: t.Amount, FeeMsats: t.FeesPaid}
	preimage, proven := proof(t.Preimage, hash)
	switch {
	case proven && (t.State == stateSettled || t.State == ""):
		p.State, p.Preimage = payments.PaymentSucceeded, preimage
	case t.State == stateFailed:
		p.State, p.FeeMsats, p.FailureReason = payments.PaymentFailed, t.LostMsats, "the wallet says that the payment failed"
	case t.State == statePending, t.State == stateAccepted:
		p.State = payments.PaymentInFlight
	}
	return p
}

// TrackPayment waits until the payment has succeeded or failed, or ctx ends.
func (c *Client) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		changed, _, _ := c.outcome(hash) // before looking, so that no change is missed
		p, err := c.lookupPayment(ctx, hash)
		if err != nil {
			return payments.Payment{}, fmt.Errorf("track payment: %w", err)
		}
		if p.State.Terminal() {
			return p, nil
		}

		select {
		case <-changed:
		case <-time.After(pause):
		case <-c.ended:
			return payments.Payment{}, fmt.Errorf("track payment: %w: the connection is closed", payments.ErrWalletUnavailable)
		case <-ctx.Done():
			return payments.Payment{}, fmt.Errorf("track payment: %w", ctx.Err())
		}
	}
}
