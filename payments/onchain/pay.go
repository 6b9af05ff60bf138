package onchain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/btcsuite/btcd/wire"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// leaseFor is how long lnd keeps the inputs of a transaction from others that
// was signed and not yet published: a node may be down for a while.
const leaseFor = 7 * 24 * time.Hour

// warnAfter is how long a transaction may be in no block before people are told.
const warnAfter = 2 * time.Hour

// SendPayment makes sure that the payment is on its way: a transaction to the
// address that the text names, which is a BOLT 11 text or a bitcoin: URI with an
// amount. It is signed and written down first, so each repetition publishes that
// one. ErrNoRoute: it would cost more than the fee limit, or than the configured
// rate.
func (w *Wallet) SendPayment(ctx context.Context, pay payments.Pay) error {
	to, err := w.checkPay(ctx, pay)
	if err != nil {
		return err
	}

	select { // two at once would lease for one and the same payment
	case w.sends <- struct{}{}:
		defer func() { <-w.sends }()
	case <-ctx.Done():
		return fmt.Errorf("begin payment: %w", ctx.Err())
	}

	s, err := w.cfg.Book.send(ctx, to.hash)
	if errors.Is(err, payments.ErrNotFound) && !pay.ToldAt.IsZero() {
		s, err = w.published(ctx, to, pay)
	}
	if errors.Is(err, payments.ErrNotFound) {
		s, err = w.sign(ctx, to, pay)
	}

	switch {
	case err != nil:
		return err
	case s.bolt11 != pay.BOLT11:
		return fmt.Errorf("%w: %s is paid by another text", payments.ErrAlreadyPaid, to.hash)
	}

	return w.publish(ctx, s)
}

// published finds the transaction of a payment that was begun before, and whose record
// was lost with the book: lnd remembers what it published. One that is another payment's
// is not it. ErrNotFound: there is none.
func (w *Wallet) published(ctx context.Context, to target, pay payments.Pay) (send, error) {
	sats, err := satsFor(pay.AmountMsats)
	if err != nil {
		return send{}, err
	}
	list, err := w.cfg.Chain.Published(ctx, to.address, sats, pay.ToldAt)
	if err != nil {
		return send{}, err
	}

	for _, p := range list {
		txid, vout, err := findOutput(p.Raw, to.output, sats)
		if err != nil {
			return send{}, fmt.Errorf("%w: published, but unreadable: %w", payments.ErrUnknownOutcome, err)
		}
		taken, err := w.cfg.Book.isSend(ctx, txid, vout)
		if err != nil {
			return send{}, err
		}
		if !taken {
			return w.record(ctx, to, pay, send{sats: sats, feeSats: p.FeeSats, raw: p.Raw})
		}
	}

	return send{}, fmt.Errorf("%w: nothing was published for %s", payments.ErrNotFound, to.hash)
}

// record writes the transaction of a payment down. From then on it is the only one.
func (w *Wallet) record(ctx context.Context, to target, pay payments.Pay, s send) (_ send, err error) {
	s.hash, s.bolt11, s.label, s.msats = to.hash, pay.BOLT11, to.label, pay.AmountMsats
	if s.txid, s.vout, err = findOutput(s.raw, to.output, s.sats); err != nil {
		return send{}, err
	}
	if err := w.cfg.Book.addSend(ctx, s); err != nil {
		return send{}, fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
	}
	return w.cfg.Book.send(ctx, to.hash)
}

// sign makes the one transaction of a payment and writes it down.
func (w *Wallet) sign(ctx context.Context, to target, pay payments.Pay) (send, error) {
	sats, err := satsFor(pay.AmountMsats)
	if err != nil {
		return send{}, err
	}
	if !to.expires.IsZero() && !time.Now().Before(to.expires) {
		return send{}, fmt.Errorf("%w: %s", payments.ErrExpired, to.hash)
	}

	if err := w.cfg.MaySpend.Ask(); err != nil {
		return send{}, err
	}
	rate, err := w.feeRate(ctx)
	if err != nil {
		return send{}, err
	}
	lease := sha256.Sum256(append([]byte("lightwork/lease/v1"), to.hash[:]...))

	// Of an attempt that died before its transaction was written down, and so was
	// published by nobody.
	if err := w.cfg.Chain.Release(ctx, lease); err != nil {
		return send{}, err
	}
	raw, fee, err := w.cfg.Chain.SignSend(ctx, lnd.ChainSend{Address: to.address, Sats: sats, SatPerVByte: rate, Lease: lease, For: leaseFor})
	if err != nil {
		// Written down nowhere, so published by nobody; lnd may have leased already.
		return send{}, errors.Join(fmt.Errorf("make transaction: %w", err), w.cfg.Chain.Release(ctx, lease))
	}
	s := send{msats: pay.AmountMsats, sats: sats, feeSats: fee, raw: raw}
	if cost := s.costMsats(); cost > pay.FeeLimitMsats {
		err := fmt.Errorf("%w: the transaction costs %d msats, the limit is %d", payments.ErrNoRoute, cost, pay.FeeLimitMsats)
		return send{}, errors.Join(err, w.cfg.Chain.Release(ctx, lease))
	}

	s, err = w.record(ctx, to, pay, s)
	if payments.NeverSent(err) {
		return send{}, errors.Join(err, w.cfg.Chain.Release(ctx, lease))
	}
	return s, err
}

// feeRate is what a transaction pays now, in satoshi a virtual byte; ErrNoRoute
// above the configured rate.
func (w *Wallet) feeRate(ctx context.Context) (int64, error) {
	rate, err := w.cfg.Chain.FeeRate(ctx, w.cfg.TargetBlocks)
	if err == nil && rate > w.cfg.MaxSatPerVByte {
		err = fmt.Errorf("%w: %d sat/vB to be in a block within %d, at most %d are paid", payments.ErrNoRoute, rate, w.cfg.TargetBlocks, w.cfg.MaxSatPerVByte)
	}
	return rate, err
}

// findOutput reads the transaction that lnd signed: it must pay what was asked.
func findOutput(raw []byte, to bolt11.Fallback, sats int64) (txid string, index uint32, err error) {
	script, err := to.Script()
	if err != nil {
		return "", 0, err
	}
	var tx wire.MsgTx
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return "", 0, fmt.Errorf("%w: lnd's transaction: %w", payments.ErrUnsupported, err)
	}

	for i, out := range tx.TxOut {
		if out.Value == sats && bytes.Equal(out.PkScript, script) {
			return tx.TxHash().String(), uint32(i), nil
		}
	}

	return "", 0, fmt.Errorf("%w: lnd's transaction does not pay the address", payments.ErrInvoiceMismatch)
}

// publish sends the transaction unless the wallet has it already.
func (w *Wallet) publish(ctx context.Context, s send) error {
	if s.finished {
		return nil
	}
	_, err := w.cfg.Chain.Transaction(ctx, s.txid)
	if errors.Is(err, payments.ErrNotFound) {
		if err = w.cfg.MaySpend.Ask(); err == nil {
			err = w.cfg.Chain.Publish(ctx, s.raw, s.label)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: publish %s: %w", payments.ErrUnknownOutcome, s.txid, err)
	}
	return nil
}

// LookupPayment tells how a payment stands: in flight until its transaction has
// the configured confirmations. It never fails by itself: a signed transaction
// may always confirm. One that lnd has forgotten is published again. ErrNotFound only
// while lnd is ready: a payment that nobody knows is sent next, and lnd must know there
// what it has spent.
func (w *Wallet) LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	s, err := w.cfg.Book.send(ctx, hash)
	if errors.Is(err, payments.ErrNotFound) {
		if err = w.cfg.Chain.Ready(ctx); err == nil {
			err = fmt.Errorf("payment %s: %w", hash, payments.ErrNotFound)
		}
	}
	if err != nil {
		return payments.Payment{}, err
	}
	p := payments.Payment{
		Hash: hash, State: payments.PaymentInFlight, AmountMsats: s.msats, FeeMsats: s.costMsats(),
		Outpoints: s.txid + ":" + strconv.FormatUint(uint64(s.vout), 10),
	}
	if s.finished {
		p.State = payments.PaymentSucceeded
		return p, nil
	}

	tx, err := w.cfg.Chain.Transaction(ctx, s.txid)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return p, w.publish(ctx, s)
	case err != nil:
		return payments.Payment{}, err
	case tx.Confirmations >= w.cfg.Confirmations:
		p.State = payments.PaymentSucceeded
		return p, w.cfg.Book.finish(ctx, hash)
	case tx.Confirmations == 0 && time.Since(s.at) > warnAfter:
		p.Warning = "transaction " + s.txid + " is in no block yet; lncli wallet bumpfee makes it quicker"
	}

	return p, nil
}

// TrackPayment waits for the end of a payment.
func (w *Wallet) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	tick := time.NewTicker(w.cfg.PollEvery)
	defer tick.Stop()

	for {
		p, err := w.LookupPayment(ctx, hash)
		if err != nil && !errors.Is(err, payments.ErrUnknownOutcome) || p.State.Terminal() {
			return p, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return payments.Payment{Hash: hash, State: payments.PaymentUnknown}, fmt.Errorf("track payment: %w", ctx.Err())
		}
	}
}
