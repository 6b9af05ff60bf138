package nwc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

const (
	defaultPayTimeout = time.Minute
	// keepAttempts bounds the attempts in memory.
	keepAttempts = 4096
	// keepPay is how long to wait for the answer to pay_invoice, which for a hold
	// invoice comes when the invoice is settled.
	keepPay = 24 * time.Hour
)

// attempt is a pay_invoice request that was or may have been sent. Client.mu guards
// it.
type attempt struct {
	amountMsats int64
	feeLimit    int64            // msats
	until       time.Time        // when the request expires
	ended       bool             // answered:
	result      payments.Payment // valid if err is nil
	err         error
}

// SendPayment makes sure that the payment is started; it may be repeated. It
// returns nil when the service reports the payment as in flight or succeeded.
//
// Before sending anything, it asks the service about the hash; if that fails, the
// error is payments.ErrWalletUnavailable and nothing was sent. Once the request may
// have reached a relay, every outcome except a clear answer is
// payments.ErrUnknownOutcome.
//
// NIP-47 has no fee limit: Pay.FeeLimitMsats binds only a service that supports
// pay_invoice_fee_limit; others choose the fee themselves.
func (c *Client) SendPayment(ctx context.Context, p payments.Pay) error {
	if err := c.sendPayment(ctx, p); err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	return nil
}

func (c *Client) sendPayment(ctx context.Context, p payments.Pay) error {
	inv, err := c.checkPay(ctx, p)
	if err != nil {
		return err
	}
	if p.Timeout == 0 {
		p.Timeout = defaultPayTimeout
	}

	t, err := c.lookup(ctx, inv.PaymentHash)
	switch {
	case err == nil && t.Type == typeOutgoing && t.State != stateFailed:
		return sameInvoice(t, p)
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, p.Timeout+c.cfg.CallTimeout)
	defer cancel()

	if err := c.begin(ctx, p, inv.PaymentHash); err != nil {
		return err
	}
	return c.awaitBegun(ctx, p, inv.PaymentHash)
}

// checkPay refuses invalid payments before the service is asked.
func (c *Client) checkPay(ctx context.Context, p payments.Pay) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(p.BOLT11)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if inv.AmountMsats != p.AmountMsats || p.AmountMsats < 1 {
		return nil, fmt.Errorf("%w: asked to pay %d msats, the invoice says %d", payments.ErrAmount, p.AmountMsats, inv.AmountMsats)
	}
	if err := payments.CheckMsats(p.FeeLimitMsats); err != nil {
		return nil, fmt.Errorf("fee limit: %w", err)
	}
	if p.Timeout < 0 {
		return nil, fmt.Errorf("%w: negative timeout", payments.ErrBadRequest)
	}

	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if !info.CanPay() {
		return nil, fmt.Errorf("%w: paying needs pay_invoice, and lookup_invoice to learn what became of a payment", payments.ErrUnsupported)
	}

	node, err := c.Node(ctx)
	if err != nil {
		return nil, err
	}
	if inv.Network != node.Network {
		return nil, fmt.Errorf("%w: the invoice is for %s, the wallet is on %s", payments.ErrWrongNetwork, inv.Network, node.Network)
	}
	if inv.Payee == node.PubKey {
		return nil, fmt.Errorf("%w: %s", payments.ErrSelfPayment, inv.PaymentHash)
	}

	return inv, nil
}

// sameInvoice: a payment in flight or succeeded may be repeated only for the same
// invoice.
func sameInvoice(t transaction, p payments.Pay) error {
	if t.Invoice != "" && !strings.EqualFold(t.Invoice, p.BOLT11) {
		return fmt.Errorf("%w: by another invoice", payments.ErrAlreadyPaid)
	}
	return nil
}

// begin sends pay_invoice, unless a request for the hash is pending.
func (c *Client) begin(ctx context.Context, p payments.Pay, hash payments.Hash) error {
	q, err := c.prepare(ctx, PayInvoice, payParams{Invoice: p.BOLT11, FeeLimit: &p.FeeLimitMsats}, p.Timeout+c.cfg.CallTimeout)
	if err != nil {
		return err
	}
	a := &attempt{amountMsats: p.AmountMsats, feeLimit: p.FeeLimitMsats, until: time.Now().Add(p.Timeout + c.cfg.CallTimeout + 2*time.Second)}
	if joined, err := c.register(hash, a); joined || err != nil {
		return err
	}
	err = c.expect(q, PayInvoice, keepPay, func(r jsontext.Value, err error) { c.onPayAnswer(hash, a, r, err) })
	if err != nil {
		c.mu.Lock()
		delete(c.attempts, hash)
		c.mu.Unlock()
		return err
	}
	if err := c.cfg.MaySpend.Ask(); err != nil {
		c.mu.Lock()
		delete(c.attempts, hash)
		c.mu.Unlock()
		return err
	}
	if err := c.publish(ctx, q); err != nil {
		// A relay may have it anyway: wait for the answer.
		c.cfg.Log.Warn("a payment's request is perhaps not sent", "payment_hash", hash, "err", err)
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
	}

	return nil
}

// register records the attempt. joined means that an earlier one may still be
// answered or carried out, so nothing may be sent.
func (c *Client) register(hash payments.Hash, a *attempt) (joined bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.attempts[hash]
	if old != nil && !old.ended && time.Now().Before(old.until) {
		return true, nil
	}
	if old == nil && len(c.attempts) >= keepAttempts && !c.dropAttempt() {
		return false, fmt.Errorf("%w: too many payments under way", payments.ErrWalletUnavailable)
	}
	c.attempts[hash] = a
	return false, nil
}

// dropAttempt drops an attempt that has ended; c.mu must be held.
func (c *Client) dropAttempt() bool {
	for h, a := range c.attempts {
		if a.ended || time.Now().After(a.until) {
			delete(c.attempts, h)
			return true
		}
	}
	return false
}

// onPayAnswer handles the answer to pay_invoice; c.mu must be held.
func (c *Client) onPayAnswer(hash payments.Hash, a *attempt, result jsontext.Value, err error) {
	var r payResult
	if err == nil {
		err = decodeResult(result, &r)
	}
	a.result = payments.Payment{Hash: hash, State: payments.PaymentSucceeded, AmountMsats: a.amountMsats, FeeMsats: r.FeesPaid}
	if err == nil {
		var ok bool
		if a.result.Preimage, ok = proof(r.Preimage, hash); !ok || payments.CheckMsats(r.FeesPaid) != nil {
			err = fmt.Errorf("%w: the preimage is not that of the invoice", ErrAnswer)
		}
	}

	if err == nil && r.FeesPaid > a.feeLimit {
		c.cfg.Log.Warn("the wallet paid a fee over the limit", "payment_hash", hash, "fee_msats", r.FeesPaid, "limit_msats", a.feeLimit)
	}
	a.ended, a.err = true, err
	c.wake()
}

// isDefinite reports whether the service's refusal means that no money moves.
func isDefinite(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == CodeRateLimited ||
		!errors.Is(err, payments.ErrUnknownOutcome) && !errors.Is(err, payments.ErrWalletUnavailable))
}

// awaitBegun waits for the answer and also looks up from time to time whether the
// payment is in flight, because for a hold invoice the answer comes only at the
// end.
func (c *Client) awaitBegun(ctx context.Context, p payments.Pay, hash payments.Hash) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		changed, over, err := c.outcome(hash)
		switch {
		case over && (err == nil || isDefinite(err)):
			return err
		case over:
			return c.resolve(ctx, p, hash, err)
		}

		select {
		case <-changed:
			continue
		case <-time.After(pause):
		case <-c.ended:
			return fmt.Errorf("%w: the connection is closed", payments.ErrUnknownOutcome)
		case <-ctx.Done():
			return fmt.Errorf("%w: no answer to pay_invoice: %w", payments.ErrUnknownOutcome, ctx.Err())
		}

		// A failure may belong to an earlier attempt; only the answer is
		// conclusive.
		t, err := c.lookup(ctx, hash)
		if err == nil && t.Type == typeOutgoing && t.State != stateFailed {
			return sameInvoice(t, p)
		}
	}
}

// outcome returns the state of an attempt, and a channel that is closed when it may
// have changed.
func (c *Client) outcome(hash payments.Hash) (changed <-chan struct{}, over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.attempts[hash]; a != nil {
		over, err = a.ended, a.err
	}
	return c.changed, over, err
}

// resolve looks up a payment whose answer was not clear.
func (c *Client) resolve(ctx context.Context, p payments.Pay, hash payments.Hash, unclear error) error {
	t, err := c.lookup(ctx, hash)
	if err == nil && t.Type == typeOutgoing && t.State != stateFailed {
		return sameInvoice(t, p)
	}
	return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, unclear)
}
