package cashu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// lateAnswer is how long an unanswered request may still take effect. Until then, a
// refusal of its repetition is not final.
const lateAnswer = 10 * time.Minute

// advance completes an op, or returns why that is not possible now.
func (e *engine) advance(ctx context.Context, o op) error {
	if o.kind == "melt" {
		return e.melt(ctx, o)
	}
	before := o.unsureMS
	if before != 0 {
		// The op was sent before, so look up its outcome first.
		if done, err := e.resolve(ctx, o, nil); done || err != nil {
			return err
		}
	}

	if o.kind == "topup" {
		if ready, err := e.checkTopup(ctx, o); !ready || err != nil {
			return err
		}
	}

	if o.kind == "send" || o.kind == "export" || o.kind == "split" { // the notes are for somebody else
		if err := e.cfg.MaySpend.Ask(); err != nil {
			return err
		}
	}

	sentAt := millis(time.Now())
	if err := e.unsure(ctx, o, sentAt); err != nil {
		return err
	}
	sigs, err := e.send(ctx, o)
	if err == nil {
		return e.finish(ctx, o, sigs)
	}
	if !refused(err) {
		return err
	}
	if err := e.unsure(ctx, o, before); err != nil { // this request was answered
		return err
	}

	late := before != 0 && sentAt-before < lateAnswer.Milliseconds()
	keep, keepErr := e.mustRetry(ctx, o)
	if late || keep || keepErr != nil {
		done, lookErr := e.resolve(ctx, o, nil)
		if !done && !late {
			lookErr = firstError(lookErr, keepErr, e.renew(ctx, o))
		}
		if done {
			return lookErr
		}
		return firstError(lookErr, err)
	}

	if _, err := e.keys(ctx, 0); err != nil { // old keys may be the reason for the refusal
		return err
	}
	_, lookErr := e.resolve(ctx, o, err)
	return lookErr
}

// unsure records when the last unanswered request was sent.
func (e *engine) unsure(ctx context.Context, o op, ms int64) error {
	return e.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE ops SET unsure_ms = ? WHERE id = ?`, ms, o.id)
		return err
	})
}

func (e *engine) send(ctx context.Context, o op) ([]blindSignature, error) {
	if o.kind == "topup" {
		return e.mint.issue(ctx, o.quote, o.outputs)
	}
	return e.mint.swap(ctx, o.inputs, o.outputs)
}

// resolve asks the mint for the outcome of an op and ends the op if that is certain:
// its outputs are signed, its inputs are spent or, after a refusal that no earlier
// request can contradict any more, neither.
func (e *engine) resolve(ctx context.Context, o op, refusal error) (done bool, err error) {
	sigs, err := e.mint.restore(ctx, o.outputs)
	if err != nil {
		return false, err
	}
	if len(sigs) > 0 {
		return true, e.finish(ctx, o, sigs)
	}

	var states []noteState
	if len(o.inputs) > 0 {
		if states, err = e.mint.states(ctx, o.inputs); err != nil {
			return false, err
		}
	}

	spent := slices.ContainsFunc(states, func(s noteState) bool { return s.State == stateSpent })
	pending := slices.ContainsFunc(states, func(s noteState) bool { return s.State == statePending })
	switch {
	case spent:
		return true, e.fail(ctx, o, states, ErrSpent)
	case pending:
		return false, fmt.Errorf("%w: the mint has the notes as pending", payments.ErrUnknownOutcome)
	case refusal != nil:
		return true, e.fail(ctx, o, states, refusal)
	}

	return false, nil
}

// finish turns the mint's signatures into notes, our own or locked ones, in the
// transaction that ends the op.
func (e *engine) finish(ctx context.Context, o op, sigs []blindSignature) error {
	var own, locked []note
	for i, out := range o.outputs {
		k, err := e.keysetOf(ctx, out.Keyset)
		if err != nil {
			return err
		}
		n, err := out.note(sigs[i], k)
		if err != nil {
			return err
		}
		if out.Locked {
			locked = append(locked, n)
		} else {
			own = append(own, n)
		}
	}

	err := e.db.Update(ctx, func(tx *sqlite.Tx) error {
		if err := insertNotes(tx, own); err != nil {
			return err
		}
		if err := endOp(tx, o, "done", "spent", ""); err != nil {
			return err
		}

		switch o.kind {
		case "send":
			return markSent(tx, o.hash, locked)
		case "claim":
			return settleInvoice(tx, o.hash, time.Now())
		case "refund":
			return e.finishRefund(tx, o.hash, total(own))
		case "split":
			return e.splitDone(tx, o.quote, locked)
		case "export":
			return keepToken(tx, o.id, e.cfg.Mint, locked)
		}

		return nil
	})
	if err == nil {
		e.afterOp(o)
	}
	return err
}

// keysetOf returns one of the mint's keysets, and fetches it after a restart.
func (e *engine) keysetOf(ctx context.Context, id string) (*keyset, error) {
	e.mu.Lock()
	k := e.keysets[id]
	e.mu.Unlock()
	if k != nil {
		return k, nil
	}
	list, err := e.keysetsOf(ctx, []note{{Keyset: id}})
	return list[id], err
}

// afterOp notifies waiting callers and starts the next round at once, because the
// end of an op usually starts the next one.
func (e *engine) afterOp(o op) {
	if o.kind == "claim" {
		e.notify(o.hash)
	} else {
		e.notify(payments.Hash{})
	}
	e.wake()
}

// finishRefund ends a payment whose notes are ours again.
func (e *engine) finishRefund(tx *sqlite.Tx, hash payments.Hash, sats int64) error {
	row, err := selectPayment(tx, hash)
	if err != nil {
		return err
	}
	feesMsats := row.amountMsats + row.feeMsats - sats*1000
	why := "the payee did not take it before the lock ended; it is ours again"
	if feesMsats > 0 {
		why += fmt.Sprintf(", less %d msats of the mint's fees", feesMsats)
	}
	return markFailed(tx, hash, max(0, feesMsats), why)
}

// fail ends an op that cannot succeed any more.
func (e *engine) fail(ctx context.Context, o op, states []noteState, why error) error {
	e.cfg.Log.Warn("the mint refused an operation for good", "op", o.kind, "payment_hash", o.hash, "err", why)
	err := e.db.Update(ctx, func(tx *sqlite.Tx) error {
		if err := endOp(tx, o, "refused", "free", printable(why.Error())); err != nil {
			return err
		}

		for i, s := range states { // a spent note stays spent although the op failed
			if s.State != stateUnspent {
				if _, err := tx.Exec(`UPDATE notes SET state = 'spent', op = ? WHERE secret = ?`, o.id, o.inputs[i].Secret); err != nil {
					return err
				}
			}
		}

		switch o.kind {
		case "split":
			return markMeltFailed(tx, o.quote, maxSats, why)
		case "melt":
			return markMeltFailed(tx, o.quote, total(o.inputs), why)
		case "send":
			return markFailed(tx, o.hash, 0, "the mint did not lock the notes: "+printable(why.Error()))
		case "claim":
			return cancelInvoice(tx, o.hash, "the mint did not pay: "+printable(why.Error()))
		case "refund":
			for _, s := range states {
				if p, ok := preimageIn(s.Witness, o.hash); ok {
					return markSucceeded(tx, p)
				}
			}
			return markBack(tx, o.hash, "the lock has ended, and the mint does not give the notes back: "+printable(why.Error()))
		}

		return nil
	})
	if err == nil {
		e.afterOp(o)
	}
	return err
}

// mustRetry reports whether an op continues after a refusal, because giving up would
// lose money: earned notes until their lock ends, and notes that we have paid the
// mint for. Mints also answer with refusals when they have internal problems.
func (e *engine) mustRetry(ctx context.Context, o op) (yes bool, err error) {
	switch o.kind {
	case "claim":
		err = e.db.View(ctx, func(tx *sqlite.Tx) error {
			row, err := selectInvoice(tx, o.hash)
			yes = time.Now().Before(row.lockedUntil)
			return err
		})
	case "topup":
		yes = time.Since(o.at) < topupKept
	}
	return yes, err
}

// renew replaces the outputs of a refused and unsigned request by outputs for the
// mint's current keys, if it has retired the old ones.
func (e *engine) renew(ctx context.Context, o op) error {
	if _, err := e.keys(ctx, 0); err != nil {
		return err
	}
	k, err := e.active(ctx)
	if err != nil || k.id == o.outputs[0].Keyset {
		return err
	}
	var sats int64
	for _, out := range o.outputs {
		sats += out.Amount
	}
	amounts, err := k.split(sats)
	if err != nil {
		return err
	}

	return e.db.Update(ctx, func(tx *sqlite.Tx) error {
		outputs, err := e.outputs(tx, k, amounts, nil)
		if err != nil {
			return err
		}
		doc, err := columnText(outputs)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE ops SET outputs = ?, unsure_ms = 0 WHERE id = ? AND state = 'open'`, doc, o.id)
		return err
	})
}
