package cashu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// onMessage stores a message that may pay an open invoice. Anybody may know the
// invoice's hash, so the notes are first checked offline: invalid notes of a
// stranger must not displace those of the payer. The remaining checks follow when
// the mint can be reached.
func (w *Wallet) onMessage(ctx context.Context, doc []byte) {
	hash, notes, err := parseMessage(doc, w.cfg.Mint)
	if err != nil {
		w.cfg.Log.Debug("a message is not a payment", "err", err)
		return
	}
	row, err := w.invoice(ctx, hash)
	if err == nil && row.state != "open" {
		return // the payer repeats the message until the notes are spent
	}
	most := maxUnproven
	if list := w.cachedKeys(notes); err == nil && list != nil {
		most = maxArrivals
		err = w.checkNotes(row, list, notes)
	}

	var isNew bool
	if err == nil {
		err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
			isNew, err = insertArrival(tx, hash, notes, most)
			return err
		})
	}

	if err != nil {
		w.cfg.Log.Debug("a message is not a payment", "payment_hash", hash, "err", err)
		return
	}
	if isNew {
		w.wake()
	}
}

// cachedKeys returns the cached keys of the mint if they include the keysets of all
// the notes.
func (w *Wallet) cachedKeys(notes []note) map[string]*keyset {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range notes {
		if w.keysets[n.Keyset] == nil {
			return nil
		}
	}
	return w.keysets
}

// accept decides on notes that were received for an invoice: whether the mint
// issued them, and whether they are locked as the invoice says, sufficient and
// unspent.
func (e *engine) accept(ctx context.Context, a arrival) error {
	brings, wrong := e.examine(ctx, a)
	if errors.Is(wrong, ErrCap) {
		e.noRoom(a, wrong)
		return nil
	}
	if wrong != nil && !isBad(wrong) {
		return wrong // the mint cannot be reached now
	}

	var k *keyset
	if wrong == nil {
		var err error
		if k, err = e.active(ctx); err != nil {
			return err
		}
	}

	var why error
	err := e.db.Update(ctx, func(tx *sqlite.Tx) error {
		row, err := selectInvoice(tx, a.hash)
		if err != nil {
			return err
		}
		if why = wrong; why == nil && row.state != "open" {
			why = fmt.Errorf("%w: the invoice is %s", payments.ErrAlreadyPaid, row.state)
		}
		if why != nil {
			return endArrival(tx, a.id, "refused")
		}
		if err := e.checkCap(tx, brings); err != nil {
			return err // a top-up was started after the examination
		}

		l, err := parseLock(a.notes[0].Secret)
		if err != nil {
			return err
		}
		if err := firstError(holdInvoice(tx, a.hash, a.notes, time.Unix(l.until, 0)), endArrival(tx, a.id, "taken")); err != nil || row.hold {
			return err
		}
		if row, err = selectInvoice(tx, a.hash); err != nil {
			return err
		}

		return e.claim(tx, k, row, row.preimage)
	})
	if errors.Is(err, ErrCap) {
		e.noRoom(a, err)
		return nil
	}
	if why != nil {
		e.cfg.Log.Warn("notes that were sent to us are not taken", "payment_hash", a.hash, "err", why)
	}
	if err == nil {
		e.notify(a.hash)
		e.wake() // a claim may have been written
	}

	return err
}

// noRoom postpones a payment until there is room, or until examine finds that its
// lock ends.
func (e *engine) noRoom(a arrival, why error) {
	if !e.waitingForRoom[a.id] {
		e.cfg.Log.Warn("a payment waits for room", "mint", e.cfg.Mint, "payment_hash", a.hash, "err", why)
		e.waitingForRoom[a.id] = true
	}
}

// isBad reports whether an error is caused by the notes and not by the moment.
func isBad(err error) bool {
	for _, e := range []error{ErrKeyset, ErrNote, ErrLock, ErrSpent, payments.ErrAmount, payments.ErrNotFound} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// examine returns the amount of a payment in msats, or what is wrong with it.
func (e *engine) examine(ctx context.Context, a arrival) (brings int64, err error) {
	row, err := e.invoice(ctx, a.hash)
	if err != nil {
		return 0, err
	}
	list, err := e.keysetsOf(ctx, a.notes)
	if err != nil {
		return 0, err
	}
	if err := e.checkNotes(row, list, a.notes); err != nil {
		return 0, err
	}

	fee, err := inputFee(list, a.notes)
	if err != nil {
		return 0, err
	}

	// This may be more than the invoice asks for.
	brings = (total(a.notes) - fee) * 1000
	if row.state == "open" { // in other states the payment is refused anyway
		if err := e.db.View(ctx, func(tx *sqlite.Tx) error { return e.checkCap(tx, brings) }); err != nil {
			return 0, err
		}
	}

	states, err := e.mint.states(ctx, a.notes)
	if err != nil {
		return 0, err
	}

	for _, s := range states {
		if s.State != stateUnspent {
			return 0, fmt.Errorf("%w: the mint says %s", ErrSpent, s.State)
		}
	}

	return brings, nil
}

// checkNotes makes the checks that do not need the mint: its signatures on the
// notes, their lock for this invoice, and their sum.
func (w *Wallet) checkNotes(row invoiceRow, list map[string]*keyset, notes []note) error {
	lockedFor := time.Now().Add(w.cfg.Lock / 2)
	for i, n := range notes {
		if err := n.check(list[n.Keyset]); err != nil {
			return err
		}
		l, err := parseLock(n.Secret)
		if err != nil {
			return err
		}
		if !list[n.Keyset].lasts(time.Unix(l.until, 0)) {
			return fmt.Errorf("%w: they expire before their lock ends", ErrKeyset)
		}
		if first, _ := parseLock(notes[0].Secret); i > 0 && first != l {
			return fmt.Errorf("%w: two notes are locked differently", ErrLock)
		}
		if l.hash != row.hash || l.payee != w.node || time.Unix(l.until, 0).Before(lockedFor) || l.refund == w.node {
			return fmt.Errorf("%w: to %s and %s until %d", ErrLock, l.hash, l.payee, l.until)
		}
	}

	fee, err := inputFee(list, notes)
	if err != nil {
		return err
	}
	if got := total(notes) - fee; got < satsFor(row.amountMsats) {
		return fmt.Errorf("%w: %d sats after the mint's fee, the invoice is over %d msats", payments.ErrAmount, got, row.amountMsats)
	}

	return nil
}
