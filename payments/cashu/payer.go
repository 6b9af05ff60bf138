package cashu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// SendPayment commits to paying the invoice and returns; Serve carries it out. An
// invoice is paid once: if the notes came back to us, it is not paid again.
func (w *Wallet) SendPayment(ctx context.Context, p payments.Pay) error {
	inv, err := w.payable(p)
	if err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	exists, err := w.hasPayment(ctx, inv.PaymentHash)
	if err != nil || exists {
		return wrapError("send payment", err)
	}
	if time.Now().After(inv.ExpiresAt()) {
		return fmt.Errorf("send payment: %w: at %s", payments.ErrExpired, inv.ExpiresAt().Format(time.RFC3339))
	}

	if err := w.cfg.MaySpend.Ask(); err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	k, err := w.active(ctx)
	if err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	err = w.db.Update(ctx, func(tx *sqlite.Tx) error { return w.begin(tx, k, inv, p) })
	if err != nil {
		return fmt.Errorf("send payment: %w", err)
	}
	w.wake()
	return nil
}

// payable refuses invoices that must not be paid.
func (w *Wallet) payable(p payments.Pay) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(p.BOLT11)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	case inv.Network != w.network:
		return nil, fmt.Errorf("%w: the invoice is for %s, this wallet is on %s", payments.ErrWrongNetwork, inv.Network, w.network)
	case p.AmountMsats != inv.AmountMsats || p.AmountMsats < 1:
		return nil, fmt.Errorf("%w: %d msats for an invoice of %d", payments.ErrAmount, p.AmountMsats, inv.AmountMsats)
	case p.FeeLimitMsats < 0:
		return nil, fmt.Errorf("%w: fee limit of %d msats", payments.ErrAmount, p.FeeLimitMsats)
	case inv.Payee == w.node:
		return nil, fmt.Errorf("%w: %s", payments.ErrSelfPayment, inv.PaymentHash)
	case time.Duration(inv.Ecash.LockSeconds)*time.Second > maxLock:
		return nil, fmt.Errorf("%w: it wants the notes locked for %d s, more than %v", payments.ErrBadRequest, inv.Ecash.LockSeconds, maxLock)
	case !w.sharesRelay(inv.Ecash.Relays):
		return nil, fmt.Errorf("%w: the payee listens on none of our relays, but on %q", payments.ErrNoRoute, inv.Ecash.Relays)
	}

	return inv, nil
}

// hasPayment reports whether the payment is in flight or succeeded. A payment that
// failed before any note was locked may be repeated.
func (w *Wallet) hasPayment(ctx context.Context, hash payments.Hash) (exists bool, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		row, err := selectPayment(tx, hash)
		switch {
		case errors.Is(err, payments.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.state == payFailed && len(row.notes) > 0:
			return fmt.Errorf("%w: it was paid and the payee did not take the notes; ask for a new invoice", payments.ErrExpired)
		}
		exists = row.state != payFailed
		return nil
	})
	return exists, err
}

// plan lists the notes for a payment and the resulting amounts, in sats.
type plan struct {
	inputs []note
	locked []int64 // for the payee, with the mint's fee for spending them
	change []int64
	cost   int64 // total taken out of the wallet
}

// begin reserves notes and writes the request to the mint.
func (w *Wallet) begin(tx *sqlite.Tx, k *keyset, inv *bolt11.Invoice, p payments.Pay) error {
	if row, err := selectPayment(tx, inv.PaymentHash); err == nil && row.state != payFailed {
		return nil // another call was faster
	} else if err != nil && !errors.Is(err, payments.ErrNotFound) {
		return err
	}

	free, err := freeNotes(tx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	list := w.keysets
	w.mu.Unlock()
	pl, err := planPayment(list, k, free, satsFor(inv.AmountMsats))
	if err != nil {
		return err
	}
	fee := pl.cost*1000 - inv.AmountMsats
	if fee > p.FeeLimitMsats {
		return fmt.Errorf("%w: the mint's fee and the rounding to sats are %d msats, the limit is %d", payments.ErrNoRoute, fee, p.FeeLimitMsats)
	}
	row := paymentRow{
		hash: inv.PaymentHash, bolt11: p.BOLT11, amountMsats: inv.AmountMsats, feeMsats: fee, payee: inv.Payee,
		lockedUntil: time.Unix(time.Now().Unix()+inv.Ecash.LockSeconds, 0),
	}
	o := op{kind: "send", hash: inv.PaymentHash, inputs: pl.inputs}
	l := lock{hash: row.hash, payee: inv.Payee, refund: pointText(w.cfg.Seed.refundKey(row.hash).PubKey()), until: row.lockedUntil.Unix()}
	locked, err := w.outputs(tx, k, pl.locked, &l)
	if err != nil {
		return err
	}
	change, err := w.outputs(tx, k, pl.change, nil)
	if err != nil {
		return err
	}
	o.outputs = append(locked, change...)
	if err := insertPayment(tx, row); err != nil {
		return err
	}
	return insertOp(tx, o)
}

// satsFor rounds up, because the mint's smallest amount is a sat.
func satsFor(msats int64) int64 { return (msats + 999) / 1000 }

// planPayment chooses notes that cover the sum, the largest first, to use few.
func planPayment(list map[string]*keyset, k *keyset, free []note, sats int64) (p plan, err error) {
	lockedSum := sats
	for {
		if p.locked, err = k.split(lockedSum); err != nil {
			return p, fmt.Errorf("%w: %w", payments.ErrInsufficientFunds, err)
		}
		fee := feeSats(int64(len(p.locked)) * k.feePPK)
		if lockedSum-fee >= sats {
			break
		}
		lockedSum = sats + fee
	}

	var sum, fee int64
	for _, n := range free {
		if sum-fee >= lockedSum || len(p.inputs) == maxNotes {
			break
		}
		if _, exists := list[n.Keyset]; !exists {
			continue // the mint has dropped the keyset
		}
		p.inputs = append(p.inputs, n)
		sum += n.Amount
		if fee, err = inputFee(list, p.inputs); err != nil {
			return p, err
		}
	}

	if sum-fee < lockedSum {
		return p, fmt.Errorf("%w: the wallet has %d sats of notes; %d and a fee of %d are needed", payments.ErrInsufficientFunds, sum, lockedSum, fee)
	}
	p.change, err = k.split(sum - fee - lockedSum)
	p.cost = lockedSum + fee
	return p, err
}

// LookupPayment returns one of our payments in its current state.
func (w *Wallet) LookupPayment(ctx context.Context, hash payments.Hash) (p payments.Payment, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		row, err := selectPayment(tx, hash)
		p = row.toPayment()
		return err
	})
	if err != nil {
		return payments.Payment{}, fmt.Errorf("look up payment: %w", err)
	}
	return p, nil
}

func (r paymentRow) toPayment() payments.Payment {
	p := payments.Payment{
		Hash: r.hash, State: payments.PaymentInFlight, AmountMsats: r.amountMsats, FeeMsats: r.feeMsats,
		Preimage: r.preimage, FailureReason: r.failure, Warning: r.warning,
	}
	switch r.state {
	case paySucceeded:
		p.State = payments.PaymentSucceeded
	case payFailed:
		p.State = payments.PaymentFailed
	}
	return p
}

// TrackPayment waits for the end of the payment.
func (w *Wallet) TrackPayment(ctx context.Context, hash payments.Hash) (p payments.Payment, err error) {
	err = w.await(ctx, func() (bool, error) {
		p, err = w.LookupPayment(ctx, hash)
		return p.State.Terminal(), err
	})
	if err != nil {
		return payments.Payment{}, fmt.Errorf("track payment: %w", err)
	}
	return p, nil
}

// follow sends a payment's message to its payee until the mint shows the preimage
// or the lock ends.
func (e *engine) follow(ctx context.Context, row paymentRow) error {
	now := time.Now()
	p := e.next[row.hash]
	if p == nil {
		p = &pace{wait: e.cfg.Poll}
		e.next[row.hash] = p
	}

	if now.Before(p.look) {
		return nil
	}
	p.wait = min(p.wait+p.wait/8, slowest)
	p.look = now.Add(p.wait)
	states, err := e.mint.states(ctx, row.notes)
	if err != nil {
		return err
	}

	spent := false
	for _, s := range states {
		spent = spent || s.State == stateSpent
		if preimage, ok := preimageIn(s.Witness, row.hash); ok && s.State == stateSpent {
			err := e.db.Update(ctx, func(tx *sqlite.Tx) error { return markSucceeded(tx, preimage) })
			delete(e.next, row.hash)
			e.notify(payments.Hash{})
			return err
		}
	}

	switch {
	case spent:
		return e.warn(ctx, row, "the notes are spent, and the mint does not show the preimage (NUT-07)")
	case now.After(row.lockedUntil.Add(time.Second)):
		return e.takeBack(ctx, row)
	case now.After(p.send):
		if err := e.cfg.MaySpend.Ask(); err != nil {
			return err
		}
		p.send = now.Add(resend)
		message, err := formatMessage(row.hash, e.cfg.Mint, row.notes)
		if err != nil {
			return err
		}
		if err := e.cfg.Messages.Send(ctx, row.payee[2:], message); err != nil {
			p.send = time.Time{} // retry in the next round
			return err
		}
	}

	return nil
}

func (e *engine) warn(ctx context.Context, row paymentRow, warning string) error {
	if row.warning == warning {
		return nil
	}
	return e.db.Update(ctx, func(tx *sqlite.Tx) error { return markWarning(tx, row.hash, warning) })
}

// takeBack commits to asking the mint for the notes that the payee did not take.
func (e *engine) takeBack(ctx context.Context, row paymentRow) error {
	k, err := e.active(ctx)
	if err != nil {
		return err
	}
	list, err := e.keysetsOf(ctx, row.notes)
	if err != nil {
		return err
	}
	fee, err := inputFee(list, row.notes)
	if err != nil {
		return err
	}
	amounts, err := k.split(total(row.notes) - fee)
	if err != nil {
		return err
	}
	o := op{kind: "refund", hash: row.hash}
	if o.inputs, err = sign(row.notes, e.cfg.Seed.refundKey(row.hash), payments.Preimage{}); err != nil {
		return err
	}
	err = e.db.Update(ctx, func(tx *sqlite.Tx) error {
		var err error
		if o.outputs, err = e.outputs(tx, k, amounts, nil); err != nil {
			return err
		}
		if err := markRefunding(tx, row.hash); err != nil {
			return err
		}
		return insertOp(tx, o)
	})
	if err == nil {
		delete(e.next, row.hash)
		e.wake()
	}

	return err
}
