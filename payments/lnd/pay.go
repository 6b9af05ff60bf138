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

// defaultPayTimeout is how long a route is looked for.
const defaultPayTimeout = time.Minute

// maxParts is how many ways an amount may be split into.
const maxParts = 16

// maxBlocks is the longest time lock of a route that lnd takes by default
// (--max-cltv-expiry); it refuses a payment with a higher limit.
const maxBlocks = 2016

// SendPayment makes sure that the payment is begun: it returns nil when the
// whole amount is on its way, or was. It may be repeated; lnd pays a hash once.
//
// When lnd was asked and then not heard of, the error is
// payments.ErrUnknownOutcome. When lnd could not be asked at all it is
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

	// Asking first costs little, and tells a node that is down apart from one
	// that went away with our payment.
	known, err := w.track(ctx, inv.PaymentHash)
	switch {
	case err == nil && known.Status != lnrpc.Payment_FAILED:
		return w.join(ctx, known, pay, inv.PaymentHash)
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return err
	}

	return w.send(ctx, known, pay, inv)
}

// checkPay refuses what must not be paid, before lnd hears of it. Expiry is
// left to lnd: a payment under way may be repeated after it.
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

// send asks lnd to pay and waits until it has begun. before is the payment as
// lnd had it, failed, or nil.
func (w *Wallet) send(ctx context.Context, before *lnrpc.Payment, pay payments.Pay, inv *bolt11.Invoice) error {
	hash := inv.PaymentHash
	limited, cancel := context.WithTimeout(ctx, pay.Timeout+w.cfg.CallTimeout)
	defer cancel()

	stream, err := w.router.SendPaymentV2(limited, &routerrpc.SendPaymentRequest{
		PaymentRequest: pay.BOLT11,
		FeeLimitMsat:   pay.FeeLimitMsats,
		CltvLimit:      int32(min(uint64(inv.MinFinalCLTV)+bolt11.RouteBlocks, maxBlocks)),
		TimeoutSeconds: int32(min(math.Ceil(pay.Timeout.Seconds()), math.MaxInt32)),
		MaxParts:       maxParts,
		// Our going away must not end a payment: its outcome would then hang
		// on a race.
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
		return failed(update, pay)
	}

	return nil
}

// afterSend finds out what became of a payment whose stream ended in sendErr.
func (w *Wallet) afterSend(ctx context.Context, before *lnrpc.Payment, pay payments.Pay, hash payments.Hash, sendErr error) error {
	known, err := w.track(ctx, hash)
	nothingNew := errors.Is(err, payments.ErrNotFound) ||
		err == nil && before != nil && known.PaymentIndex == before.PaymentIndex

	switch {
	case nothingNew && refused(sendErr):
		return sendErr // lnd said no, and it has no such payment
	case err != nil, nothingNew:
		// The request may still reach lnd after our question.
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, sendErr)
	case known.Status == lnrpc.Payment_FAILED:
		return failed(known, pay)
	}
	return w.join(ctx, known, pay, hash)
}

// join waits until a payment that lnd has already is begun, if it pays this
// invoice. A crash of lnd's can leave one that never begins: that is unknown.
func (w *Wallet) join(ctx context.Context, known *lnrpc.Payment, pay payments.Pay, hash payments.Hash) error {
	if !strings.EqualFold(known.PaymentRequest, pay.BOLT11) {
		return fmt.Errorf("%w: %s is paid by another invoice", payments.ErrAlreadyPaid, hash)
	}
	if begun(known) {
		return nil
	}

	limited, cancel := context.WithTimeout(ctx, pay.Timeout+w.cfg.CallTimeout)
	defer cancel()

	stream, err := w.router.TrackPaymentV2(limited, &routerrpc.TrackPaymentRequest{PaymentHash: hash[:]})
	if err == nil {
		known, err = untilBegun(stream)
	}

	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, w.fail(ctx, rpcTrackPayment, err))
	case known.Status == lnrpc.Payment_FAILED:
		return failed(known, pay)
	}

	return nil
}

// untilBegun reads a stream until the payment is on its way or over.
func untilBegun(stream interface {
	Recv() (*lnrpc.Payment, error)
},
) (*lnrpc.Payment, error) {
	for {
		update, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if begun(update) || update.Status == lnrpc.Payment_FAILED {
			return update, nil
		}
	}
}

// begun reports whether the whole amount is on its way or there. lnd's status
// alone does not tell: by default it says IN_FLIGHT also before the first
// attempt, and of a payment in parts when the first of them is sent.
func begun(p *lnrpc.Payment) bool {
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

// failed says why lnd gave a payment up.
func failed(p *lnrpc.Payment, pay payments.Pay) error {
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

// reason says why lnd gave a payment up, and what helps.
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
