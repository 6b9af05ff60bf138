package lnd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// defaultPayTimeout is how long lnd searches for a route.
const defaultPayTimeout = time.Minute

// maxParts is the most parts into which an amount may be split.
const maxParts = 16

// maxBlocks is the longest time lock of a route that lnd accepts by default
// (--max-cltv-expiry); it refuses payments with a higher limit.
const maxBlocks = 2016

// SendPayment makes sure that the payment is started: it returns nil when the whole
// amount is in flight, or was. It may be repeated; lnd pays a hash only once.
//
// If lnd was asked and then could not be reached, the error is
// payments.ErrUnknownOutcome. If lnd could not be asked at all, it is
// payments.ErrWalletUnavailable, and nothing was sent. ErrNoRoute,
// ErrInsufficientFunds and the others mean that no money moved.
func (w *Wallet) SendPayment(ctx context.Context, pay payments.Pay) error {
	inv, err := w.checkPay(ctx, pay)
	if err != nil {
		return err
	}
	if pay.Timeout == 0 {
		pay.Timeout = defaultPayTimeout
	}

	// The lookup costs little, and distinguishes a node that is down from one that
	// failed while sending our payment.
	existing, err := w.track(ctx, inv.PaymentHash)
	switch {
	case err == nil && existing.Status != lnrpc.Payment_FAILED:
		return w.join(ctx, existing, pay, inv.PaymentHash)
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return err
	}

	return w.send(ctx, existing, pay, inv)
}

// checkPay refuses invalid payments before lnd is asked. lnd checks the expiry: a
// payment in flight may be repeated after it.
func (w *Wallet) checkPay(ctx context.Context, pay payments.Pay) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(pay.BOLT11)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if inv.AmountMsats != pay.AmountMsats || pay.AmountMsats < 1 {
		return nil, fmt.Errorf("%w: asked to pay %d msats, the invoice says %d", payments.ErrAmount, pay.AmountMsats, inv.AmountMsats)
	}
	if err := payments.CheckMsats(pay.FeeLimitMsats); err != nil {
		return nil, fmt.Errorf("fee limit: %w", err)
	}
	if pay.Timeout < 0 {
		return nil, fmt.Errorf("%w: negative timeout", payments.ErrBadRequest)
	}

	node, err := w.knownNode(ctx)
	if err != nil {
		return nil, err
	}
	if inv.Network != node.Network {
		return nil, fmt.Errorf("%w: the invoice is for %s, lnd is on %s", payments.ErrWrongNetwork, inv.Network, node.Network)
	}
	if inv.Payee == node.PubKey {
		return nil, fmt.Errorf("%w: %s", payments.ErrSelfPayment, inv.PaymentHash)
	}

	return inv, nil
}

// send asks lnd to pay and waits until the payment has started. before is the
// failed payment that lnd has for the hash, or nil.
func (w *Wallet) send(ctx context.Context, before *lnrpc.Payment, pay payments.Pay, inv *bolt11.Invoice) error {
	hash := inv.PaymentHash
	limited, cancel := context.WithTimeout(ctx, pay.Timeout+w.cfg.CallTimeout)
	defer cancel()

	if err := w.cfg.MaySpend.Ask(); err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	stream, err := w.router.SendPaymentV2(limited, &routerrpc.SendPaymentRequest{
		PaymentRequest: pay.BOLT11,
		FeeLimitMsat:   pay.FeeLimitMsats,
		CltvLimit:      int32(min(uint64(inv.MinFinalCLTV)+bolt11.RouteBlocks, maxBlocks)),
		TimeoutSeconds: int32(min(math.Ceil(pay.Timeout.Seconds()), math.MaxInt32)),
		MaxParts:       maxParts,
		// If we disconnect, the payment must go on, or its outcome would depend on
		// a race.
		Cancelable:        false,
		NoInflightUpdates: false,
	})
	if err != nil {
		return w.afterSend(ctx, before, pay, hash, w.fail(ctx, rpcSendPayment, err))
	}

	update, err := untilBegun(stream)
	switch {
	case err != nil:
		return w.afterSend(ctx, before, pay, hash, w.fail(ctx, rpcSendPayment, err))
	case update.Status == lnrpc.Payment_FAILED:
		return failureError(update, pay)
	}

	return nil
}

// afterSend looks up a payment whose stream ended with sendErr.
func (w *Wallet) afterSend(ctx context.Context, before *lnrpc.Payment, pay payments.Pay, hash payments.Hash, sendErr error) error {
	existing, err := w.track(ctx, hash)
	nothingNew := errors.Is(err, payments.ErrNotFound) ||
		err == nil && before != nil && existing.PaymentIndex == before.PaymentIndex

	switch {
	case nothingNew && isRefusal(sendErr):
		return sendErr // lnd refused, and it has no such payment
	case err != nil, nothingNew:
		// The request may still reach lnd after our lookup.
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, sendErr)
	case existing.Status == lnrpc.Payment_FAILED:
		return failureError(existing, pay)
	}
	return w.join(ctx, existing, pay, hash)
}

// join waits until an existing payment has started, if it pays this invoice. After
// a crash of lnd it may never start; then the outcome is unknown.
func (w *Wallet) join(ctx context.Context, existing *lnrpc.Payment, pay payments.Pay, hash payments.Hash) error {
	if !strings.EqualFold(existing.PaymentRequest, pay.BOLT11) {
		return fmt.Errorf("%w: %s is paid by another invoice", payments.ErrAlreadyPaid, hash)
	}
	if hasStarted(existing) {
		return nil
	}

	limited, cancel := context.WithTimeout(ctx, pay.Timeout+w.cfg.CallTimeout)
	defer cancel()

	stream, err := w.router.TrackPaymentV2(limited, &routerrpc.TrackPaymentRequest{PaymentHash: hash[:]})
	if err == nil {
		existing, err = untilBegun(stream)
	}

	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, w.fail(ctx, rpcTrackPayment, err))
	case existing.Status == lnrpc.Payment_FAILED:
		return failureError(existing, pay)
	}

	return nil
}

// untilBegun reads a stream until the payment is in flight or has ended.
func untilBegun(stream interface {
	Recv() (*lnrpc.Payment, error)
},
) (*lnrpc.Payment, error) {
	for {
		update, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if hasStarted(update) || update.Status == lnrpc.Payment_FAILED {
			return update, nil
		}
	}
}

// hasStarted reports whether the whole amount is in flight or has arrived. lnd's status
// does not tell: by default it is IN_FLIGHT before the first attempt too, and for a
// payment in parts when the first part is sent.
func hasStarted(p *lnrpc.Payment) bool {
	if p.Status == lnrpc.Payment_SUCCEEDED {
		return true
	}
	if p.Status != lnrpc.Payment_IN_FLIGHT {
		return false
	}

	var sent int64
	for _, attempt := range p.Htlcs {
		if attempt.Status != lnrpc.HTLCAttempt_FAILED {
			sent += attempt.GetRoute().GetTotalAmtMsat() - attempt.GetRoute().GetTotalFeesMsat()
		}
	}

	return sent > 0 && sent >= p.ValueMsat
}

// failureError converts the reason why lnd gave up a payment.
func failureError(p *lnrpc.Payment, pay payments.Pay) error {
	e := &Error{RPC: rpcSendPayment}
	switch p.FailureReason {
	case lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE, lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT:
		e.Kind = payments.ErrNoRoute
		e.Hint = fmt.Sprintf("the fee limit was %d msats", pay.FeeLimitMsats)
	case lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE:
		e.Kind = payments.ErrInsufficientFunds
	case lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS:
		e.Kind = payments.ErrInvoiceCanceled
		e.Hint = "the payee refuses: the invoice is canceled, expired or unknown there"
	}

	return fmt.Errorf("%w: %s", e, reason(p))
}

// reason says why lnd gave up a payment, and how to avoid it.
func reason(p *lnrpc.Payment) string {
	switch p.FailureReason {
	case lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT:
		return "timeout: no route was found in time"
	case lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE:
		return "no route within the fee limit: allow a higher fee, or open a channel nearer to the payee"
	case lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS:
		return "refused by the payee: incorrect payment details"
	case lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE:
		return "insufficient balance: no active channel has enough to send"
	case lnrpc.PaymentFailureReason_FAILURE_REASON_CANCELED:
		return "canceled"
	}

	return "error"
}
