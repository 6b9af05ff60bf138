package cashu

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

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

// keepMeltQuote writes a new quote. It takes the place of one that was not paid.
// ErrMint: the mint's name for it is that of another invoice's.
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

// markMeltPaid ends a melt; the preimage is zero where the mint did not show it.
func markMeltPaid(tx *sqlite.Tx, quote string, preimage payments.Preimage, backSats int64) error {
	var shown []byte
	if !preimage.IsZero() {
		shown = preimage[:]
	}
	_, err := tx.Exec(`UPDATE melts SET state = 'paid', preimage = ?, cost_sats = max(0, cost_sats - ?) WHERE quote = ? AND state = 'paying'`, shown, backSats, quote)
	return err
}

// markMeltFailed ends a melt that was not paid: backSats of what it would have
// cost stay ours. The rest is what the mint took for splitting the notes.
func markMeltFailed(tx *sqlite.Tx, quote string, backSats int64, why error) error {
	_, err := tx.Exec(`UPDATE melts SET state = 'failed', failure = ?, cost_sats = max(0, cost_sats - ?) WHERE quote = ? AND state IN ('splitting', 'paying')`,
		printable(why.Error()), backSats, quote)
	return err
}
