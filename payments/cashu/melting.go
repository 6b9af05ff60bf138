package cashu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// melt completes a melt, or returns why that is not possible now. After an
// unanswered request it looks up the outcome before it repeats the request: first
// the quote (NUT-05), then the notes (NUT-07), then the change (NUT-09).
func (e *engine) melt(ctx context.Context, o op) error {
	before := o.unsureMS
	if before != 0 {
		if done, err := e.resolveMelt(ctx, o, nil); done || err != nil {
			return err
		}
	}

	sentAt := millis(time.Now())
	late := before != 0 && sentAt-before < lateAnswer.Milliseconds()
	if over, err := e.meltExpired(ctx, o); err != nil {
		return err
	} else if over && !late {
		_, err := e.resolveMelt(ctx, o, fmt.Errorf("%w: before the mint was asked to pay", payments.ErrExpired))
		return err
	} else if over { // the earlier request may still take effect
		return fmt.Errorf("%w: the invoice has expired meanwhile", payments.ErrUnknownOutcome)
	}

	if err := e.cfg.MaySpend.Ask(); err != nil {
		return err
	}
	if err := e.unsure(ctx, o, sentAt); err != nil {
		return err
	}

	answer, err := e.mint.melt(ctx, o.quote, o.inputs, o.outputs)
	switch {
	case err == nil && answer.State == meltPaid:
		return e.meltPaid(ctx, o, answer)
	case err == nil && answer.State == meltPending:
		return nil
	case err == nil:
		err = &MintError{Path: meltPath, Status: 200, Detail: "the Lightning payment failed"}
	case !refused(err):
		return err
	}

	if unsureErr := e.unsure(ctx, o, before); unsureErr != nil { // this request was answered
		return unsureErr
	}
	refusal := err
	if late {
		refusal = nil
	}
	done, lookErr := e.resolveMelt(ctx, o, refusal)
	if done {
		return lookErr
	}
	return firstError(lookErr, err)
}

// meltExpired reports whether the invoice has expired.
func (e *engine) meltExpired(ctx context.Context, o op) (over bool, err error) {
	err = e.db.View(ctx, func(tx *sqlite.Tx) error {
		m, err := selectMeltByQuote(tx, o.quote)
		over = time.Now().After(m.Expires)
		return err
	})
	return over, err
}

// resolveMelt asks the mint for the outcome of a melt and ends the melt if that is
// certain: it is paid or, after a refusal that no earlier request can contradict
// any more, it is not, and the notes are ours.
func (e *engine) resolveMelt(ctx context.Context, o op, refusal error) (done bool, err error) {
	answer, err := e.mint.meltState(ctx, o.quote)
	if err != nil && !refused(err) {
		return false, err
	}

	hasState := err == nil // else the mint has forgotten the quote, and the notes decide
	switch {
	case hasState && answer.State == meltPaid:
		return true, e.meltPaid(ctx, o, answer)
	case hasState && answer.State == meltPending:
		return false, fmt.Errorf("%w: the mint is paying", payments.ErrUnknownOutcome)
	}

	states, err := e.mint.states(ctx, o.inputs)
	if err != nil {
		return false, err
	}
	is := func(state string) bool {
		return slices.ContainsFunc(states, func(s noteState) bool { return s.State == state })
	}

	switch {
	case is(statePending):
		return false, fmt.Errorf("%w: the mint has the notes as pending", payments.ErrUnknownOutcome)
	case is(stateSpent) && !hasState:
		return true, e.meltPaid(ctx, o, meltAnswer{State: meltPaid})
	case is(stateSpent):
		return true, e.fail(ctx, o, states, fmt.Errorf("%w, and the mint says that the invoice is not paid", ErrSpent))
	case refusal != nil:
		return true, e.fail(ctx, o, states, refusal)
	}

	return false, nil
}

// meltPaid ends a paid melt and adds the change to the wallet in the same
// transaction. The preimage is the only proof, but a mint that shows none is
// believed, because the notes are spent in any case.
func (e *engine) meltPaid(ctx context.Context, o op, answer meltAnswer) error {
	change, err := e.changeOf(ctx, o, answer.Change)
	if err != nil {
		return err
	}
	preimage, err := payments.ParsePreimage(answer.Preimage)
	if err != nil || preimage.Hash() != o.hash {
		preimage = payments.Preimage{}
		e.cfg.Log.Warn("the mint reports a payment without its preimage", "mint", e.cfg.Mint, "payment_hash", o.hash)
	}

	err = e.db.Update(ctx, func(tx *sqlite.Tx) error {
		if err := insertNotes(tx, change); err != nil {
			return err
		}
		if err := endOp(tx, o, "done", "spent", ""); err != nil {
			return err
		}
		return markMeltPaid(tx, o.quote, preimage, total(change))
	})
	if err == nil {
		e.afterOp(o)
	}
	return err
}

// changeOf returns the change: the mint signed the first blank outputs and filled
// in their amounts. If the answer lacks the change, it is asked for separately.
// Signatures that are not by the mint's keys are ignored.
func (e *engine) changeOf(ctx context.Context, o op, sigs []blindSignature) (notes []note, err error) {
	if len(o.outputs) == 0 {
		return nil, nil
	}
	if len(sigs) == 0 {
		byB, err := e.mint.restoreSome(ctx, o.outputs)
		if err != nil {
			return nil, err
		}
		for _, out := range o.outputs {
			if sig, ok := byB[out.B]; ok {
				sigs = append(sigs, sig)
			} else {
				break
			}
		}
	}

	k, err := e.keysetOf(ctx, o.outputs[0].Keyset)
	if err != nil {
		return nil, err
	}

	for i, sig := range sigs[:min(len(sigs), len(o.outputs))] {
		out := o.outputs[i]
		out.Amount = sig.Amount
		n, err := out.note(sig, k)
		if err != nil {
			e.cfg.Log.Warn("the mint's change is not usable", "mint", e.cfg.Mint, "payment_hash", o.hash, "err", err)
			continue
		}
		notes = append(notes, n)
	}

	return notes, nil
}
