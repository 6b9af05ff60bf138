package playnet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// maxChanges bounds the hints of one answer.
const maxChanges = 256

// Wallet is one wallet of the ledger, for use in its process. A Client has the
// same methods over HTTP.
type Wallet struct {
	ledger *Ledger
	name   string
	key    *btcec.PrivateKey
	pubKey string
}

// Node describes the wallet's own node.
func (w *Wallet) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: w.pubKey, Network: payments.Play, Alias: "play money: " + w.name}, nil
}

// CreateInvoice makes an invoice, or returns the one that it made for the same
// request before. A hash that is taken otherwise gives ErrInvoiceMismatch.
func (w *Wallet) CreateInvoice(ctx context.Context, n payments.NewInvoice) (payments.Invoice, error) {
	hash, err := n.Hash()
	if err != nil {
		return payments.Invoice{}, err
	}
	row, err := w.newInvoice(n, hash)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("make invoice: %w", err)
	}
	err = w.ledger.update(ctx, func(tx *sqlite.Tx, _ time.Time) error {
		old, err := selectInvoice(tx, hash)
		if errors.Is(err, payments.ErrNotFound) {
			return insertInvoice(tx, row)
		}
		if err != nil {
			return err
		}
		if !sameInvoice(old, row) {
			return payments.ErrInvoiceMismatch
		}

		row = old
		return nil
	})
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("make invoice: %w", err)
	}
	return row.invoice(), nil
}

// newInvoice signs what CreateInvoice stores.
func (w *Wallet) newInvoice(n payments.NewInvoice, hash payments.Hash) (invoiceRow, error) {
	created := time.Now().UTC().Truncate(time.Second) // BOLT 11 has whole seconds
	inv := &bolt11.Invoice{
		Network:         payments.Play,
		AmountMsats:     n.AmountMsats,
		CreatedAt:       created,
		PaymentHash:     hash,
		DescriptionHash: &n.DescriptionHash,
		Expiry:          n.Expiry,
		Features:        []int{8, 14}, // var_onion_optin, payment_secret
		Payee:           w.pubKey,
	}
	rand.Read(inv.PaymentSecret[:]) // never fails
	text, err := bolt11.Encode(inv, func(hash [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(w.key, hash[:], true)), nil
	})
	if err != nil {
		return invoiceRow{}, err
	}

	row := invoiceRow{
		hash:            hash,
		wallet:          w.name,
		bolt11:          text,
		amountMsats:     n.AmountMsats,
		descriptionHash: n.DescriptionHash,
		expirySeconds:   int64(n.Expiry / time.Second),
		hold:            n.Hold,
		state:           payments.InvoiceOpen,
		deadline:        inv.ExpiresAt(),
	}
	if !n.Hold {
		row.preimage = n.Preimage
	}
	return row, nil
}

// sameInvoice compares what the caller asked for, not what the ledger chose.
func sameInvoice(a, b invoiceRow) bool {
	return a.wallet == b.wallet && a.amountMsats == b.amountMsats && a.descriptionHash == b.descriptionHash &&
		a.expirySeconds == b.expirySeconds && a.hold == b.hold
}

func (r invoiceRow) invoice() payments.Invoice {
	inv := payments.Invoice{BOLT11: r.bolt11, PaymentHash: r.hash, AmountMsats: r.amountMsats, State: r.state}
	switch r.state {
	case payments.InvoiceHeld:
		inv.PaidMsats, inv.SettleBy = r.amountMsats, r.deadline
	case payments.InvoiceSettled:
		inv.PaidMsats, inv.SettledAt, inv.Final = r.amountMsats, r.settledAt, true
	}
	return inv
}

// LookupInvoice returns the wallet's own invoice, or ErrNotFound.
func (w *Wallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	var row invoiceRow
	err := w.ledger.view(ctx, func(tx *sqlite.Tx) (err error) {
		row, err = selectInvoice(tx, hash)
		return checkOwner(row, err, w.name)
	})
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("look up invoice: %w", err)
	}
	return row.invoice(), nil
}

// SettleInvoice takes the money that is held for the preimage's invoice. Once
// settled it returns nil again. ErrNotHeld: nobody has paid. ErrInvoiceCanceled
// or ErrExpired: too late.
func (w *Wallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	if preimage.IsZero() {
		return fmt.Errorf("settle invoice: %w: an all-zero preimage", payments.ErrBadRequest)
	}
	hash := preimage.Hash()
	err := w.ledger.update(ctx, func(tx *sqlite.Tx, now time.Time) error {
		row, err := selectInvoice(tx, hash)
		if err := checkOwner(row, err, w.name); err != nil {
			return err
		}

		switch row.state {
		case payments.InvoiceSettled:
			return nil
		case payments.InvoiceHeld:
			return settle(tx, now, row, preimage)
		case payments.InvoiceCanceled:
			return canceledError(row)
		}
		return payments.ErrNotHeld
	})
	if err != nil {
		return fmt.Errorf("settle invoice: %w", err)
	}
	return nil
}

// CancelInvoice ends an open invoice or gives held money back whole. Once
// cancelled, or expired, it returns nil again. ErrInvoiceSettled: too late.
func (w *Wallet) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	err := w.ledger.update(ctx, func(tx *sqlite.Tx, now time.Time) error {
		row, err := selectInvoice(tx, hash)
		if err := checkOwner(row, err, w.name); err != nil {
			return err
		}
		switch row.state {
		case payments.InvoiceCanceled:
			return nil
		case payments.InvoiceSettled:
			return payments.ErrInvoiceSettled
		}
		return cancel(tx, now, row, whyCanceled)
	})
	if err != nil {
		return fmt.Errorf("cancel invoice: %w", err)
	}
	return nil
}

// WatchInvoices calls hint with the hash of each invoice of the wallet that
// changes from now on, until ctx ends. It returns ctx's error, or the
// ledger's.
func (w *Wallet) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	after := int64(-1)
	for {
		hashes, next, err := w.changesAfter(ctx, after)
		if err != nil {
			return fmt.Errorf("watch invoices: %w", err)
		}
		for _, h := range hashes {
			hint(h)
		}
		after = next
	}
}

// changesAfter waits for changes after the given one. Negative, or beyond the
// last (a ledger that was made anew), it returns where to start, at once.
func (w *Wallet) changesAfter(ctx context.Context, after int64) (hashes []payments.Hash, next int64, err error) {
	err = w.ledger.wait(ctx, func(tx *sqlite.Tx) (bool, error) {
		last, err := selectLastChange(tx)
		if err != nil {
			return false, err
		}
		if after < 0 || after > last {
			next = last
			return true, nil
		}
		hashes, next, err = selectChanges(tx, w.name, after, maxChanges)
		return len(hashes) > 0, err
	})
	return hashes, next, err
}
