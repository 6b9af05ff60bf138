package cashu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// CreateInvoice makes an invoice with the prefix lncashu, which is paid in notes of
// the mint. If the amount is not a whole number of sats, the payer rounds it up and
// treats the difference as a fee.
func (w *Wallet) CreateInvoice(ctx context.Context, n payments.NewInvoice) (inv payments.Invoice, err error) {
	hash, err := n.Hash()
	if err != nil {
		return inv, fmt.Errorf("create invoice: %w", err)
	}
	row := invoiceRow{
		hash: hash, amountMsats: n.AmountMsats, descriptionHash: n.DescriptionHash,
		expirySeconds: int64(n.Expiry / time.Second), hold: n.Hold,
	}
	if !n.Hold {
		row.preimage = n.Preimage
	}
	now := time.Now().UTC().Truncate(time.Second)
	row.expiresAt = now.Add(n.Expiry)
	if row.bolt11, err = w.encode(row, now, n.Expiry); err != nil {
		return inv, fmt.Errorf("create invoice: %w", err)
	}
	err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
		old, err := selectInvoice(tx, hash)
		if errors.Is(err, payments.ErrNotFound) {
			if err := w.checkCap(tx, row.amountMsats); err != nil {
				return err
			}
			return insertInvoice(tx, row)
		}
		if err != nil {
			return err
		}

		same := old.amountMsats == row.amountMsats && old.descriptionHash == row.descriptionHash &&
			old.expirySeconds == row.expirySeconds && old.hold == row.hold
		row = old
		if !same {
			return fmt.Errorf("%w: %s", payments.ErrInvoiceMismatch, hash)
		}
		return nil
	})
	if err != nil {
		return inv, fmt.Errorf("create invoice: %w", err)
	}
	return w.toInvoice(row), nil
}

func (w *Wallet) encode(row invoiceRow, now time.Time, expiry time.Duration) (string, error) {
	inv := &bolt11.Invoice{
		Network: w.network, AmountMsats: row.amountMsats, CreatedAt: now, PaymentHash: row.hash,
		DescriptionHash: &row.descriptionHash, Expiry: expiry, Payee: w.node,
		Features: []int{8, 14}, // required in every invoice: the format of the onion, the payment secret
		Ecash:    &bolt11.Ecash{Mint: w.cfg.Mint, LockSeconds: int64(w.cfg.Lock / time.Second), Relays: w.cfg.Relays},
	}
	rand.Read(inv.PaymentSecret[:]) // never fails
	return bolt11.Encode(inv, func(digest [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(w.key, digest[:], true)), nil
	})
}

// toInvoice converts an invoice for callers. While the mint is being asked for the
// money, the invoice is not settled yet.
func (w *Wallet) toInvoice(r invoiceRow) payments.Invoice {
	inv := payments.Invoice{BOLT11: r.bolt11, PaymentHash: r.hash, AmountMsats: r.amountMsats}
	switch r.state {
	case "", "open":
		inv.State = payments.InvoiceOpen
	case "held", stateClaiming:
		if !r.hold {
			inv.State = payments.InvoiceOpen
			break
		}
		inv.State, inv.PaidMsats, inv.SettleBy = payments.InvoiceHeld, r.amountMsats, w.settleBy(r)
	case "settled":
		inv.State, inv.PaidMsats, inv.SettledAt, inv.Final = payments.InvoiceSettled, r.amountMsats, r.settledAt, true
	default:
		inv.State = payments.InvoiceCanceled
	}

	return inv
}

// settleBy leaves time for the mint's answer and for differences of clocks.
func (w *Wallet) settleBy(r invoiceRow) time.Time {
	return r.lockedUntil.Add(-min(time.Minute, w.cfg.Lock/4))
}

// LookupInvoice returns one of our invoices in its current state.
func (w *Wallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	row, err := w.invoice(ctx, hash)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("look up invoice: %w", err)
	}
	return w.toInvoice(row), nil
}

// invoice reads an invoice, and ends it if it has expired.
func (w *Wallet) invoice(ctx context.Context, hash payments.Hash) (row invoiceRow, err error) {
	read := func(tx *sqlite.Tx) (err error) {
		row, err = selectInvoice(tx, hash)
		return err
	}
	if err := w.db.View(ctx, read); err != nil || !w.hasExpired(row, time.Now()) {
		return row, err
	}
	err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		if err := w.cancelExpired(tx, row); err != nil {
			return err
		}
		return read(tx)
	})
	return row, err
}

func (w *Wallet) hasExpired(r invoiceRow, now time.Time) bool {
	return r.state == "open" && now.After(r.expiresAt) || r.state == "held" && now.After(r.lockedUntil)
}

// cancelExpired cancels an expired invoice, unless a message that arrived in time waits for
// the mint.
func (w *Wallet) cancelExpired(tx *sqlite.Tx, r invoiceRow) error {
	if !w.hasExpired(r, time.Now()) {
		return nil
	}
	if r.state == "held" {
		return cancelInvoice(tx, r.hash, "it was not settled before the notes' lock ended")
	}
	var waiting int
	if err := tx.QueryRow(`SELECT count(*) FROM arrivals WHERE payment_hash = ? AND state = 'new'`, r.hash[:]).Scan(&waiting); err != nil || waiting > 0 {
		return err
	}
	return cancelInvoice(tx, r.hash, "it was not paid in time")
}

// SettleInvoice gives the mint the preimage for the held notes and returns when
// they are ours.
func (w *Wallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	hash := preimage.Hash()
	row, err := w.invoice(ctx, hash)
	if err != nil {
		return fmt.Errorf("settle invoice: %w", err)
	}
	if row.state == "held" && !preimage.IsZero() {
		if err := w.beginClaim(ctx, preimage); err != nil {
			return fmt.Errorf("settle invoice: %w", err)
		}
		w.wake()
	}

	err = w.await(ctx, func() (bool, error) {
		row, err := w.invoice(ctx, hash)
		switch {
		case err != nil:
			return true, err
		case row.state == "settled":
			return true, nil
		case row.state == "canceled":
			return true, fmt.Errorf("%w: %s", payments.ErrInvoiceCanceled, hash)
		case row.state == "open":
			return true, fmt.Errorf("%w: %s", payments.ErrNotHeld, hash)
		}

		return false, nil
	})
	if err != nil {
		return fmt.Errorf("settle invoice: %w", err)
	}
	return nil
}

// beginClaim commits to claiming the held notes.
func (w *Wallet) beginClaim(ctx context.Context, preimage payments.Preimage) error {
	k, err := w.active(ctx)
	if err != nil {
		return err
	}
	return w.db.Update(ctx, func(tx *sqlite.Tx) error {
		row, err := selectInvoice(tx, preimage.Hash())
		if err != nil || row.state != "held" {
			return err
		}
		return w.claim(tx, k, row, preimage)
	})
}

// claim writes the request that swaps the held notes for our own.
func (w *Wallet) claim(tx *sqlite.Tx, k *keyset, row invoiceRow, preimage payments.Preimage) error {
	w.mu.Lock()
	list := w.keysets
	w.mu.Unlock()
	fee, err := inputFee(list, row.notes)
	if err != nil {
		return err
	}
	amounts, err := k.split(total(row.notes) - fee)
	if err != nil {
		return err
	}
	o := op{kind: "claim", hash: row.hash}
	if o.inputs, err = sign(row.notes, w.key, preimage); err != nil {
		return err
	}
	if o.outputs, err = w.outputs(tx, k, amounts, nil); err != nil {
		return err
	}
	if err := insertOp(tx, o); err != nil {
		return err
	}

	return claimInvoice(tx, preimage)
}

// CancelInvoice refuses held notes and future payments of the invoice. Held notes
// go back to the payer when their lock ends; a mint has no earlier way.
func (w *Wallet) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	err := w.db.Update(ctx, func(tx *sqlite.Tx) error {
		row, err := selectInvoice(tx, hash)
		if err != nil {
			return err
		}
		if row.state == "settled" || row.state == stateClaiming {
			return fmt.Errorf("%w: %s", payments.ErrInvoiceSettled, hash)
		}
		return cancelInvoice(tx, hash, "the payee canceled it")
	})
	if err != nil {
		return fmt.Errorf("cancel invoice: %w", err)
	}
	w.notify(hash)
	return nil
}

// WatchInvoices calls hint with the hash of each invoice that changes, until
// ctx ends; it returns ctx's error.
func (w *Wallet) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	hints := make(chan payments.Hash, 256)
	w.mu.Lock()
	w.watchers[hints] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.watchers, hints)
		w.mu.Unlock()
	}()

	for {
		select {
		case h := <-hints:
			hint(h)
		case <-w.ended:
			return fmt.Errorf("watch invoices: %w: the wallet is closed", payments.ErrWalletUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("watch invoices: %w", ctx.Err())
		}
	}
}
