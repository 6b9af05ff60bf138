package lnd

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/lightwork-market/lightwork/payments"
)

// LookupPayment returns the current state of a payment. payments.ErrNotFound means
// that lnd does not know it, which is also possible for a payment that is just
// being sent; if no answer came, the error is payments.ErrUnknownOutcome.
func (w *Wallet) LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	raw, err := w.track(ctx, hash)
	if err != nil {
		return payments.Payment{}, unknownUnlessAnswered(err)
	}
	p, err := payment(raw, hash)
	if err == nil {
		p.Warning = w.warning(ctx, raw, hash)
	}
	return p, err
}

// TrackPayment waits until the payment succeeded or failed, across restarts of lnd.
// If ctx ends first, the error is payments.ErrUnknownOutcome: the payment may still
// succeed or fail.
func (w *Wallet) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	retry := w.newRetry()
	for {
		raw, err := w.trackToEnd(ctx, hash)
		if err == nil {
			return payment(raw, hash)
		}
		if isRefusal(err) {
			return payments.Payment{}, unknownUnlessAnswered(err)
		}

		if ctx.Err() == nil {
			w.cfg.Log.Warn("payment tracking interrupted", "payment_hash", hash.String(), "error", err)
		}
		if retry.wait(ctx) != nil {
			return payments.Payment{}, fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, errors.Join(ctx.Err(), err))
		}
	}
}

// track reads the current state, which is always the first message of the stream.
func (w *Wallet) track(ctx context.Context, hash payments.Hash) (*lnrpc.Payment, error) {
	limited, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	stream, err := w.router.TrackPaymentV2(limited, &routerrpc.TrackPaymentRequest{PaymentHash: hash[:]})
	if err != nil {
		return nil, w.fail(ctx, rpcTrackPayment, err)
	}
	raw, err := stream.Recv()
	if err != nil {
		return nil, w.fail(ctx, rpcTrackPayment, err)
	}
	return raw, nil
}

// trackToEnd reads a stream until a final state. A stream that ends earlier says
// nothing about the outcome.
func (w *Wallet) trackToEnd(ctx context.Context, hash payments.Hash) (*lnrpc.Payment, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()

	stream, err := w.router.TrackPaymentV2(streamCtx, &routerrpc.TrackPaymentRequest{PaymentHash: hash[:]})
	if err != nil {
		return nil, w.fail(ctx, rpcTrackPayment, err)
	}

	for {
		raw, err := stream.Recv()
		if err != nil {
			return nil, w.fail(ctx, rpcTrackPayment, err)
		}
		if raw.Status == lnrpc.Payment_SUCCEEDED || raw.Status == lnrpc.Payment_FAILED {
			return raw, nil
		}
	}
}

// unknownUnlessAnswered adds ErrUnknownOutcome to an error, unless it is an answer
// about the payment or our permissions.
func unknownUnlessAnswered(err error) error {
	if errors.Is(err, payments.ErrNotFound) || errors.Is(err, payments.ErrUnauthorized) || errors.Is(err, payments.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
}

// payment converts lnd's state of a payment. A preimage that does not match the
// hash is no proof and makes the outcome unknown.
func payment(raw *lnrpc.Payment, hash payments.Hash) (payments.Payment, error) {
	if raw.PaymentHash != hash.String() {
		return payments.Payment{}, fmt.Errorf("%w: lnd answered with another payment than %s", payments.ErrUnknownOutcome, hash)
	}
	p := payments.Payment{
		Hash: hash, State: payments.PaymentUnknown,
		AmountMsats: raw.ValueMsat, FeeMsats: raw.FeeMsat,
	}

	switch raw.Status {
	case lnrpc.Payment_INITIATED, lnrpc.Payment_IN_FLIGHT:
		p.State = payments.PaymentInFlight
	case lnrpc.Payment_FAILED:
		p.State, p.FailureReason, p.FeeMsats = payments.PaymentFailed, reason(raw), 0
	case lnrpc.Payment_SUCCEEDED:
		preimage, err := payments.ParsePreimage(raw.PaymentPreimage)
		if err != nil || preimage.Hash() != hash {
			return payments.Payment{}, fmt.Errorf("%w: lnd's preimage is not that of %s", payments.ErrUnknownOutcome, hash)
		}
		p.State, p.Preimage = payments.PaymentSucceeded, preimage
	}

	return p, nil
}
