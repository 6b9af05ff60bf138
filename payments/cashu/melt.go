package cashu

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// MeltState is the state of a melt.
type MeltState string

// A melt is quoted until Melt is called, splitting and paying until the mint
// reports the outcome; paid and failed are final.
const (
	MeltQuoted    MeltState = "quoted"
	MeltSplitting MeltState = "splitting"
	MeltPaying    MeltState = "paying"
	MeltPaid      MeltState = "paid"
	MeltFailed    MeltState = "failed"
)

// Melt is a Lightning invoice that the mint pays for our notes (NUT-05).
type Melt struct {
	Hash        payments.Hash
	Invoice     string // BOLT 11
	AmountMsats int64  // of the invoice
	Sats        int64  // the mint's price, without fees
	ReserveSats int64  // limit of the Lightning fee; the mint may return the unused part as change (NUT-08)
	Expires     time.Time
	State       MeltState
	CostSats    int64             // cost to the wallet with all fees; 0 while the melt is quoted
	Preimage    payments.Preimage // if paid; zero if the mint did not show it
	Failure     string
	At          time.Time // time of the quote

	quote string // the mint's id of the quote
}

// MeltQuote asks the mint for its price to pay the invoice; it starts nothing. For
// an invoice that was quoted before it returns the same quote until that expires. A
// melt that was started is returned in its current state.
func (w *Wallet) MeltQuote(ctx context.Context, invoice string) (m Melt, err error) {
	inv, err := meltable(invoice)
	if err != nil {
		return m, fmt.Errorf("quote melt: %w", err)
	}
	m, err = w.LookupMelt(ctx, inv.PaymentHash)
	if err == nil {
		again := m.State == MeltFailed || m.State == MeltQuoted
		if !again || m.Invoice == invoice && time.Now().Before(m.Expires) {
			return m, nil
		}
	} else if !errors.Is(err, payments.ErrNotFound) {
		return m, fmt.Errorf("quote melt: %w", err)
	}

	if time.Now().After(inv.ExpiresAt()) {
		return m, fmt.Errorf("quote melt: %w: at %s", payments.ErrExpired, inv.ExpiresAt().Format(time.RFC3339))
	}
	answer, err := w.mint.meltQuote(ctx, invoice)
	if err != nil {
		return m, fmt.Errorf("quote melt: %w", err)
	}
	if m, err = answer.toMelt(inv, invoice); err != nil {
		return m, fmt.Errorf("quote melt: %w", err)
	}

	return m, wrapError("quote melt", w.db.Update(ctx, func(tx *sqlite.Tx) error { return keepMeltQuote(tx, m) }))
}

// meltable refuses invoices that no mint can pay.
func meltable(invoice string) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(invoice)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if mint, ok := inv.Network.CashuMint(); ok {
		return nil, fmt.Errorf("%w: the invoice is to be paid in notes of %s, not over Lightning", payments.ErrWrongNetwork, printable(mint))
	}
	if inv.Network == payments.Play {
		return nil, fmt.Errorf("%w: the invoice is for play money", payments.ErrWrongNetwork)
	}
	if inv.AmountMsats < 1 {
		return nil, fmt.Errorf("%w: the invoice names no amount", payments.ErrAmount)
	}

	return inv, nil
}

// toMelt checks the mint's quote against the invoice; the mint may round up to
// sats.
func (a meltAnswer) toMelt(inv *bolt11.Invoice, invoice string) (Melt, error) {
	m := Melt{
		Hash: inv.PaymentHash, Invoice: invoice, AmountMsats: inv.AmountMsats, Sats: a.Amount, ReserveSats: a.Reserve,
		Expires: inv.ExpiresAt().UTC(), State: MeltQuoted, At: time.Now().UTC().Truncate(time.Millisecond), quote: a.Quote,
	}
	if a.Expiry > 0 {
		if end := time.Unix(a.Expiry, 0).UTC(); end.Before(m.Expires) {
			m.Expires = end
		}
	}

	switch {
	case a.Quote == "" || len(a.Quote) > 200:
		return m, fmt.Errorf("%w: no quote", ErrMint)
	case a.Amount < 1 || a.Amount > maxSats || a.Amount < inv.AmountMsats/1000 || a.Amount > satsFor(inv.AmountMsats):
		return m, fmt.Errorf("%w: it wants %d sats for an invoice over %d msats", ErrMint, a.Amount, inv.AmountMsats)
	case a.Reserve < 0 || a.Reserve > maxSats:
		return m, fmt.Errorf("%w: it reserves %d sats for the fee", ErrMint, a.Reserve)
	}
	return m, nil
}

// MeltCost is the most that a quoted melt takes out of the wallet, in sats,
// including the mint's fees for spending notes.
func (w *Wallet) MeltCost(ctx context.Context, m Melt) (sats int64, err error) {
	k, err := w.active(ctx)
	if err != nil {
		return 0, fmt.Errorf("cost of melt: %w", err)
	}
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		p, err := w.planMelt(tx, k, m)
		sats = p.cost
		return err
	})
	return sats, wrapError("cost of melt", err)
}

func (w *Wallet) planMelt(tx *sqlite.Tx, k *keyset, m Melt) (plan, error) {
	free, err := freeNotes(tx)
	if err != nil {
		return plan{}, err
	}
	w.mu.Lock()
	list := w.keysets
	w.mu.Unlock()
	return planPayment(list, k, free, m.Sats+m.ReserveSats)
}

// Melt commits to paying a quoted invoice for at most maxCostSats in total and
// returns; Serve carries it out. A melt that is running or paid is not started
// again.
func (w *Wallet) Melt(ctx context.Context, hash payments.Hash, maxCostSats int64) error {
	k, err := w.active(ctx)
	if err != nil {
		return fmt.Errorf("melt: %w", err)
	}
	err = w.db.Update(ctx, func(tx *sqlite.Tx) error {
		m, err := selectMelt(tx, hash)
		if err != nil || m.State != MeltQuoted && m.State != MeltFailed {
			return err
		}
		if err := w.cfg.MaySpend.Ask(); err != nil {
			return err
		}
		if time.Now().After(m.Expires) {
			return fmt.Errorf("%w: the quote or the invoice, at %s", payments.ErrExpired, m.Expires.Format(time.RFC3339))
		}

		p, err := w.planMelt(tx, k, m)
		if err != nil {
			return err
		}
		if p.cost > maxCostSats {
			return fmt.Errorf("%w: it would take %d sats, fees and their reserve included; at most %d were allowed", payments.ErrNoRoute, p.cost, maxCostSats)
		}
		if err := markMeltBegun(tx, hash, p.cost); err != nil {
			return err
		}

		return w.beginSplit(tx, k, m, p)
	})
	if err != nil {
		return fmt.Errorf("melt: %w", err)
	}
	w.wake()
	return nil
}

// beginSplit asks for notes of exactly the needed sum, because not every mint gives
// change.
func (w *Wallet) beginSplit(tx *sqlite.Tx, k *keyset, m Melt, p plan) error {
	out, err := w.outputs(tx, k, p.locked, nil)
	if err != nil {
		return err
	}
	for i := range out {
		out[i].Locked = true // for the melt
	}
	change, err := w.outputs(tx, k, p.change, nil)
	if err != nil {
		return err
	}
	return insertOp(tx, op{kind: "split", quote: m.quote, inputs: p.inputs, outputs: append(out, change...)})
}

// splitDone commits to the melt in the transaction that stores its notes. The blank
// outputs are for the unused part of the reserve.
func (w *Wallet) splitDone(tx *sqlite.Tx, quote string, notes []note) error {
	m, err := selectMeltByQuote(tx, quote)
	if err != nil {
		return err
	}
	w.mu.Lock()
	k := w.keysets[notes[0].Keyset]
	w.mu.Unlock()
	if k == nil {
		return fmt.Errorf("%w: %q", ErrKeyset, printable(notes[0].Keyset))
	}
	ones := make([]int64, blanks(m.ReserveSats))
	for i := range ones {
		ones[i] = 1 // the mint fills in the amounts
	}
	blank, err := w.outputs(tx, k, ones, nil)
	if err != nil {
		return err
	}
	if err := firstError(insertNotes(tx, notes), markMeltPaying(tx, quote)); err != nil {
		return err
	}

	return insertOp(tx, op{kind: "melt", hash: m.Hash, quote: quote, inputs: notes, outputs: blank})
}

// blanks is the number of blank outputs that can hold any change of a reserve
// (NUT-08).
func blanks(reserveSats int64) int {
	if reserveSats == 0 {
		return 0
	}
	return max(1, bits.Len64(uint64(reserveSats-1)))
}

// LookupMelt returns a melt in its current state, or payments.ErrNotFound if it was
// never quoted.
func (w *Wallet) LookupMelt(ctx context.Context, hash payments.Hash) (m Melt, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		m, err = selectMelt(tx, hash)
		return err
	})
	return m, wrapError("look up melt", err)
}

// AwaitMelt waits for the end of a melt.
func (w *Wallet) AwaitMelt(ctx context.Context, hash payments.Hash) (m Melt, err error) {
	err = w.await(ctx, func() (bool, error) {
		m, err = w.LookupMelt(ctx, hash)
		return m.State == MeltPaid || m.State == MeltFailed, err
	})
	return m, wrapError("await melt", err)
}

// Melts lists the started melts, the oldest first.
func (w *Wallet) Melts(ctx context.Context) (list []Melt, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query(meltColumns + `WHERE state <> 'quoted' ORDER BY at_ms, payment_hash`)
		if err != nil {
			return err
		}

		for rows.Next() {
			m, err := scanMelt(rows)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		return rows.Err()
	})
	return list, wrapError("list melts", err)
}

const meltColumns = `SELECT payment_hash, bolt11, amount_msats, quote, sats, reserve_sats, expires_ms, state, cost_sats, preimage, failure, at_ms FROM melts `

func scanMelt(row scanner) (m Melt, err error) {
	var expires, at int64
	err = row.Scan(blob32{(*[32]byte)(&m.Hash)}, &m.Invoice, &m.AmountMsats, &m.quote, &m.Sats, &m.ReserveSats, &expires,
		&m.State, &m.CostSats, blob32{(*[32]byte)(&m.Preimage)}, &m.Failure, &at)
	m.Expires, m.At = time.UnixMilli(expires).UTC(), time.UnixMilli(at).UTC()
	return m, err
}

// selectMelt returns payments.ErrNotFound for an invoice that was never quoted.
func selectMelt(tx *sqlite.Tx, hash payments.Hash) (Melt, error) {
	m, err := scanMelt(tx.QueryRow(meltColumns+`WHERE payment_hash = ?`, hash[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("%w: melt of %s", payments.ErrNotFound, hash)
	}
	return m, err
}

func selectMeltByQuote(tx *sqlite.Tx, quote string) (Melt, error) {
	return scanMelt(tx.QueryRow(meltColumns+`WHERE quote = ?`, quote))
}

// keepMeltQuote stores a new quote, replacing one that was not paid. It returns
// ErrMint if the mint has already used the quote's id for another invoice.
func keepMeltQuote(tx *sqlite.Tx, m Melt) error {
	_, err := tx.Exec(`INSERT INTO melts (payment_hash, bolt11, amount_msats, quote, sats, reserve_sats, expires_ms, state, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, 'quoted', ?)
		ON CONFLICT (payment_hash) DO UPDATE SET bolt11 = excluded.bolt11, quote = excluded.quote, sats = excluded.sats, reserve_sats = excluded.reserve_sats,
			expires_ms = excluded.expires_ms, state = 'quoted', cost_sats = 0, failure = '', at_ms = excluded.at_ms
		WHERE state IN ('quoted', 'failed')`,
		m.Hash[:], m.Invoice, m.AmountMsats, m.quote, m.Sats, m.ReserveSats, millis(m.Expires), millis(m.At))
	if sqlite.IsUnique(err) {
		return fmt.Errorf("%w: it gave its quote %q to another invoice before", ErrMint, printable(m.quote))
	}
	if err != nil {
		return fmt.Errorf("write melt: %w", err)
	}

	return nil
}

func markMeltBegun(tx *sqlite.Tx, hash payments.Hash, costSats int64) error {
	_, err := tx.Exec(`UPDATE melts SET state = 'splitting', cost_sats = ?, failure = '' WHERE payment_hash = ? AND state IN ('quoted', 'failed')`, costSats, hash[:])
	return err
}

func markMeltPaying(tx *sqlite.Tx, quote string) error {
	_, err := tx.Exec(`UPDATE melts SET state = 'paying' WHERE quote = ? AND state = 'splitting'`, quote)
	return err
}

// markMeltPaid ends a melt; the preimage is zero if the mint did not show it.
func markMeltPaid(tx *sqlite.Tx, quote string, preimage payments.Preimage, backSats int64) error {
	var proof []byte
	if !preimage.IsZero() {
		proof = preimage[:]
	}
	_, err := tx.Exec(`UPDATE melts SET state = 'paid', preimage = ?, cost_sats = max(0, cost_sats - ?) WHERE quote = ? AND state = 'paying'`, proof, backSats, quote)
	return err
}

// markMeltFailed ends a melt that was not paid. backSats of its cost stay in the
// wallet; the rest is the mint's fee for splitting the notes.
func markMeltFailed(tx *sqlite.Tx, quote string, backSats int64, why error) error {
	_, err := tx.Exec(`UPDATE melts SET state = 'failed', failure = ?, cost_sats = max(0, cost_sats - ?) WHERE quote = ? AND state IN ('splitting', 'paying')`,
		printable(why.Error()), backSats, quote)
	return err
}
