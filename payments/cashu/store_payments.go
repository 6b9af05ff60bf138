package cashu

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// Stored states of a payment; the last two are final.
const (
	payLocking   = "locking"
	paySent      = "sent"
	payRefunding = "refunding"
	paySucceeded = "succeeded"
	payFailed    = "failed"
)

type paymentRow struct {
	hash        payments.Hash
	bolt11      string
	state       string
	amountMsats int64
	feeMsats    int64
	payee       string // compressed key in hex
	notes       []note // locked; none before the state sent
	lockedUntil time.Time
	preimage    payments.Preimage
	failure     string
	warning     string
}

// insertPayment starts a payment, or restarts one that failed before any note was
// locked.
func insertPayment(tx *sqlite.Tx, r paymentRow) error {
	_, err := tx.Exec(`INSERT INTO payments (payment_hash, bolt11, state, amount_msats, fee_msats, payee, locked_s) VALUES (?, ?, 'locking', ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET state = 'locking', fee_msats = excluded.fee_msats, locked_s = excluded.locked_s, failure = ''`,
		r.hash[:], r.bolt11, r.amountMsats, r.feeMsats, r.payee, r.lockedUntil.Unix())
	if err != nil {
		return fmt.Errorf("write payment: %w", err)
	}
	return nil
}

const paymentColumns = `SELECT payment_hash, bolt11, state, amount_msats, fee_msats, payee, notes, locked_s, preimage, failure, warning FROM payments `

func scanPayment(row scanner) (r paymentRow, err error) {
	var locked int64
	err = row.Scan(blob32{(*[32]byte)(&r.hash)}, &r.bolt11, &r.state, &r.amountMsats, &r.feeMsats, &r.payee,
		jsonColumn{&r.notes}, &locked, blob32{(*[32]byte)(&r.preimage)}, &r.failure, &r.warning)
	r.lockedUntil = time.Unix(locked, 0).UTC()
	return r, err
}

// selectPayment returns payments.ErrNotFound for an unknown payment.
func selectPayment(tx *sqlite.Tx, hash payments.Hash) (paymentRow, error) {
	r, err := scanPayment(tx.QueryRow(paymentColumns+`WHERE payment_hash = ?`, hash[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("%w: payment %s", payments.ErrNotFound, hash)
	}
	return r, err
}

// sentPayments lists the payments that wait for the payee or for the end of the
// lock.
func sentPayments(tx *sqlite.Tx) (list []paymentRow, err error) {
	rows, err := tx.Query(paymentColumns + `WHERE state = 'sent'`)
	if err != nil {
		return nil, err
	}

	for rows.Next() {
		r, err := scanPayment(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// markSent stores the locked notes: from now on the payee may take them, and we may
// again after the lock.
func markSent(tx *sqlite.Tx, hash payments.Hash, notes []note) error {
	doc, err := columnText(notes)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE payments SET state = 'sent', notes = ? WHERE payment_hash = ? AND state = 'locking'`, doc, hash[:])
	return err
}

func markRefunding(tx *sqlite.Tx, hash payments.Hash) error {
	_, err := tx.Exec(`UPDATE payments SET state = 'refunding' WHERE payment_hash = ? AND state = 'sent'`, hash[:])
	return err
}

// markBack undoes markRefunding if the notes cannot be taken back yet.
func markBack(tx *sqlite.Tx, hash payments.Hash, warning string) error {
	_, err := tx.Exec(`UPDATE payments SET state = 'sent', warning = ? WHERE payment_hash = ? AND state = 'refunding'`, warning, hash[:])
	return err
}

func markWarning(tx *sqlite.Tx, hash payments.Hash, warning string) error {
	_, err := tx.Exec(`UPDATE payments SET warning = ? WHERE payment_hash = ?`, warning, hash[:])
	return err
}

func markSucceeded(tx *sqlite.Tx, p payments.Preimage) error {
	hash := p.Hash()
	_, err := tx.Exec(`UPDATE payments SET state = 'succeeded', preimage = ?, warning = '' WHERE payment_hash = ? AND state IN ('sent', 'refunding')`, p[:], hash[:])
	return err
}

// markFailed ends a payment; feeMsats is the mint's fee.
func markFailed(tx *sqlite.Tx, hash payments.Hash, feeMsats int64, why string) error {
	_, err := tx.Exec(`UPDATE payments SET state = 'failed', fee_msats = ?, failure = ?, warning = '' WHERE payment_hash = ? AND state <> 'succeeded'`, feeMsats, why, hash[:])
	return err
}
