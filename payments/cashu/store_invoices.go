package cashu

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

type invoiceRow struct {
	hash            payments.Hash
	bolt11          string
	amountMsats     int64
	descriptionHash hashing.Digest
	expirySeconds   int64
	hold            bool
	preimage        payments.Preimage // zero while it is unknown
	state           string
	expiresAt       time.Time
	notes           []note
	lockedUntil     time.Time
	settledAt       time.Time
}

// Further states of an invoice besides those of package payments.
const stateClaiming = "claiming"

func insertInvoice(tx *sqlite.Tx, r invoiceRow) error {
	var preimage []byte
	if !r.preimage.IsZero() {
		preimage = r.preimage[:]
	}
	_, err := tx.Exec(`INSERT INTO invoices (payment_hash, bolt11, amount_msats, description_hash, expiry_s, hold, preimage, state, expires_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, 'open', ?)`,
		r.hash[:], r.bolt11, r.amountMsats, r.descriptionHash[:], r.expirySeconds, r.hold, preimage, millis(r.expiresAt))
	if err != nil {
		return fmt.Errorf("write invoice: %w", err)
	}
	return nil
}

const invoiceColumns = `SELECT payment_hash, bolt11, amount_msats, description_hash, expiry_s, hold, preimage, state, expires_ms, notes, locked_ms, settled_ms FROM invoices `

// scanner is a row, or the current row of a result.
type scanner interface{ Scan(dest ...any) error }

func scanInvoice(row scanner) (r invoiceRow, err error) {
	var expires, locked, settled sql.NullInt64
	err = row.Scan(blob32{(*[32]byte)(&r.hash)}, &r.bolt11, &r.amountMsats, blob32{(*[32]byte)(&r.descriptionHash)}, &r.expirySeconds,
		&r.hold, blob32{(*[32]byte)(&r.preimage)}, &r.state, &expires, jsonColumn{&r.notes}, &locked, &settled)
	r.expiresAt, r.lockedUntil, r.settledAt = fromMillis(expires), fromMillis(locked), fromMillis(settled)
	return r, err
}

// selectInvoice returns payments.ErrNotFound for an unknown invoice.
func selectInvoice(tx *sqlite.Tx, hash payments.Hash) (invoiceRow, error) {
	r, err := scanInvoice(tx.QueryRow(invoiceColumns+`WHERE payment_hash = ?`, hash[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("%w: invoice %s", payments.ErrNotFound, hash)
	}
	return r, err
}

// unfinishedInvoices lists the invoices that have not ended.
func unfinishedInvoices(tx *sqlite.Tx) (list []invoiceRow, err error) {
	rows, err := tx.Query(invoiceColumns + `WHERE state IN ('open', 'held', 'claiming')`)
	if err != nil {
		return nil, err
	}

	for rows.Next() {
		r, err := scanInvoice(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

func holdInvoice(tx *sqlite.Tx, hash payments.Hash, notes []note, until time.Time) error {
	doc, err := columnText(notes)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE invoices SET state = 'held', notes = ?, locked_ms = ? WHERE payment_hash = ? AND state = 'open'`, doc, millis(until), hash[:])
	return err
}

func claimInvoice(tx *sqlite.Tx, preimage payments.Preimage) error {
	hash := preimage.Hash()
	_, err := tx.Exec(`UPDATE invoices SET state = 'claiming', preimage = ? WHERE payment_hash = ? AND state = 'held'`, preimage[:], hash[:])
	return err
}

func settleInvoice(tx *sqlite.Tx, hash payments.Hash, at time.Time) error {
	_, err := tx.Exec(`UPDATE invoices SET state = 'settled', settled_ms = ? WHERE payment_hash = ? AND state = 'claiming'`, millis(at), hash[:])
	return err
}

func cancelInvoice(tx *sqlite.Tx, hash payments.Hash, why string) error {
	_, err := tx.Exec(`UPDATE invoices SET state = 'canceled', canceled_why = ? WHERE payment_hash = ? AND state <> 'settled' AND state <> 'canceled'`, why, hash[:])
	return err
}

// Bounds of the messages stored for one invoice. While the mint's keys are unknown,
// invented notes cannot be told from real ones; once they are known, only notes
// count that the mint signed and that are locked for the invoice, which cost the
// sender money.
const (
	maxUnproven = 8
	maxArrivals = 16
)

type arrival struct {
	id    int64
	hash  payments.Hash
	notes []note
}

// insertArrival stores a message once. It returns false if the message is known or
// there are most messages already.
func insertArrival(tx *sqlite.Tx, hash payments.Hash, notes []note, most int) (bool, error) {
	doc, err := columnText(notes)
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(append(hash[:], doc...))
	res, err := tx.Exec(`INSERT INTO arrivals (payment_hash, digest, notes, at_ms, state)
		SELECT ?1, ?2, ?3, ?4, 'new' WHERE (SELECT count(*) FROM arrivals WHERE payment_hash = ?1) < ?5 ON CONFLICT DO NOTHING`,
		hash[:], digest[:], doc, millis(time.Now()), most)
	if err != nil {
		return false, fmt.Errorf("keep message: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

func newArrivals(tx *sqlite.Tx) (list []arrival, err error) {
	rows, err := tx.Query(`SELECT id, payment_hash, notes FROM arrivals WHERE state = 'new' ORDER BY id`)
	if err != nil {
		return nil, err
	}

	for rows.Next() {
		var a arrival
		if err := rows.Scan(&a.id, blob32{(*[32]byte)(&a.hash)}, jsonColumn{&a.notes}); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}

// endArrival keeps only the fact that a message arrived: its notes now belong to
// the invoice, or are ignored.
func endArrival(tx *sqlite.Tx, id int64, state string) error {
	_, err := tx.Exec(`UPDATE arrivals SET state = ?, notes = '[]' WHERE id = ?`, state, id)
	return err
}
