package cashu

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// follow brings a payment's message to its payee, and watches the mint for
// the preimage or for the end of the lock.
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
		if preimage, ok := shown(s.Witness, row.hash); ok && s.State == stateSpent {
			err := e.db.Update(ctx, func(tx *sqlite.Tx) error { return markSucceeded(tx, preimage) })
			delete(e.next, row.hash)
			e.tell(payments.Hash{})
			return err
		}
	}

	switch {
	case spent:
		return e.warn(ctx, row, "the notes are spent, and the mint does not show the preimage (NUT-07)")
	case now.After(row.lockedUntil.Add(time.Second)):
		return e.takeBack(ctx, row)
	case now.After(p.send):
		p.send = now.Add(resend)
		message, err := formatMessage(row.hash, e.cfg.Mint, row.notes)
		if err != nil {
			return err
		}
		if err := e.cfg.Messages.Send(ctx, row.payee[2:], message); err != nil {
			p.send = time.Time{} // at the next look
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

// takeBack commits to asking the mint for notes that the payee did not take.
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
