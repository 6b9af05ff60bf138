package cashu

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// openStore opens or creates the file and checks that it belongs to this mint and
// seed, because the notes of another seed would be unspendable. An unused file is
// reassigned to the given seed.
func openStore(ctx context.Context, cfg Config, node string) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, cfg.Path, sqlite.Options{Migrations: []string{schema, schemaMelts, schemaTopups, schemaSearched}, ExclusiveLock: true, ReadOnly: cfg.ReadOnly, Logger: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open cashu wallet: %w", err)
	}
	if cfg.ReadOnly {
		return db, nil
	}

	err = db.Update(ctx, func(tx *sqlite.Tx) error {
		if err := forgetUnused(tx, cfg.Mint, node); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO wallet (one, mint, node) VALUES (1, ?, ?) ON CONFLICT DO NOTHING`, cfg.Mint, node); err != nil {
			return err
		}

		var ofMint, ofNode string
		if err := tx.QueryRow(`SELECT mint, node FROM wallet`).Scan(&ofMint, &ofNode); err != nil {
			return err
		}
		if ofMint != cfg.Mint || ofNode != node {
			return fmt.Errorf("%w: %s has notes of mint %s for key %s, which is another mint or seed", payments.ErrBadRequest, cfg.Path, ofMint, ofNode)
		}

		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cashu wallet: %w", err), db.Close())
	}
	return db, nil
}

// forgetUnused makes an unused file available for another seed: it must have
// neither notes nor requests.
func forgetUnused(tx *sqlite.Tx, mint, node string) error {
	res, err := tx.Exec(`DELETE FROM wallet WHERE mint = ? AND node <> ? AND NOT EXISTS (SELECT 1 FROM ops) AND NOT EXISTS (SELECT 1 FROM notes)
		AND NOT EXISTS (SELECT 1 FROM invoices) AND NOT EXISTS (SELECT 1 FROM payments) AND NOT EXISTS (SELECT 1 FROM melts)`, mint, node)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = tx.Exec(`DELETE FROM counters`) // the numbers belong to the old seed
	return err
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}

// columnText encodes a JSON column; it is only used with our own structs.
func columnText(v any) (string, error) {
	doc, err := json.Marshal(v)
	return string(doc), err
}

// jsonColumn scans a column written by text.
type jsonColumn struct{ to any }

func (c jsonColumn) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return json.Unmarshal([]byte(v), c.to)
	case []byte:
		return json.Unmarshal(v, c.to)
	}
	return fmt.Errorf("a column does not hold text")
}

// blob32 scans a BLOB of 32 bytes; NULL gives zeros.
type blob32 struct{ to *[32]byte }

func (c blob32) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*c.to = [32]byte{}
		return nil
	case []byte:
		if len(v) == 32 {
			*c.to = [32]byte(v)
			return nil
		}
	}
	return fmt.Errorf("a column does not hold 32 bytes")
}

// nextCounter reserves n numbers of the keyset's path and returns the first.
func nextCounter(tx *sqlite.Tx, keyset string, n int) (uint32, error) {
	var next int64
	err := tx.QueryRow(`INSERT INTO counters (keyset, next) VALUES (?1, ?2)
		ON CONFLICT DO UPDATE SET next = next + ?2 RETURNING next`, keyset, n).Scan(&next)
	if err != nil {
		return 0, fmt.Errorf("reserve numbers: %w", err)
	}
	return uint32(next - int64(n)), nil
}

// insertNotes adds notes to the wallet. Existing ones are not changed.
func insertNotes(tx *sqlite.Tx, notes []note) error {
	for _, n := range notes {
		doc, err := columnText(n)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO notes (secret, keyset, sats, note, state) VALUES (?, ?, ?, ?, 'free') ON CONFLICT DO NOTHING`,
			n.Secret, n.Keyset, n.Amount, doc); err != nil {
			return fmt.Errorf("keep note: %w", err)
		}
	}
	return nil
}

// freeNotes lists the spendable notes, the largest first.
func freeNotes(tx *sqlite.Tx) (list []note, err error) {
	rows, err := tx.Query(`SELECT note FROM notes WHERE state = 'free' ORDER BY sats DESC, secret`)
	if err != nil {
		return nil, err
	}

	for rows.Next() {
		var n note
		if err := rows.Scan(jsonColumn{&n}); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// sumNotes adds up our notes in a state, in sats.
func sumNotes(tx *sqlite.Tx, state string) (sats int64, err error) {
	err = tx.QueryRow(`SELECT COALESCE(SUM(sats), 0) FROM notes WHERE state = ?`, state).Scan(&sats)
	return sats, err
}

// op is a request to the mint that moves notes.
type op struct {
	id       int64
	kind     string
	hash     payments.Hash // zero if it does not belong to a payment
	quote    string
	inputs   []note
	outputs  []output
	unsureMS int64
	at       time.Time // time of its creation
	until    time.Time // only for writing: when a topup can no longer be paid
}

// insertOp commits to a request and reserves those of its inputs that are ours.
func insertOp(tx *sqlite.Tx, o op) error {
	inputs, err1 := columnText(o.inputs)
	outputs, err2 := columnText(o.outputs)
	if err := firstError(err1, err2); err != nil {
		return err
	}
	var hash []byte
	if !o.hash.IsZero() {
		hash = o.hash[:]
	}
	res, err := tx.Exec(`INSERT INTO ops (kind, payment_hash, quote, inputs, outputs, state, at_ms, until_ms) VALUES (?, ?, ?, ?, ?, 'open', ?, ?)`,
		o.kind, hash, o.quote, inputs, outputs, millis(time.Now()), max(0, millis(o.until)))
	if err != nil {
		return fmt.Errorf("write %s: %w", o.kind, err)
	}
	id, err := res.LastInsertId()
	if err != nil {
		return err
	}

	for _, n := range o.inputs {
		if _, err := tx.Exec(`UPDATE notes SET state = 'reserved', op = ? WHERE secret = ? AND state = 'free'`, id, n.Secret); err != nil {
			return fmt.Errorf("reserve note: %w", err)
		}
	}

	return nil
}

// openOps lists the ops that have not ended, the oldest first.
func openOps(tx *sqlite.Tx) (list []op, err error) {
	rows, err := tx.Query(`SELECT id, kind, payment_hash, quote, inputs, outputs, unsure_ms, at_ms FROM ops WHERE state = 'open' ORDER BY id`)
	if err != nil {
		return nil, err
	}

	for rows.Next() {
		var o op
		var at int64
		if err := rows.Scan(&o.id, &o.kind, blob32{(*[32]byte)(&o.hash)}, &o.quote, jsonColumn{&o.inputs}, jsonColumn{&o.outputs}, &o.unsureMS, &at); err != nil {
			return nil, err
		}
		o.at = time.UnixMilli(at)
		list = append(list, o)
	}
	return list, rows.Err()
}

// endOp ends an op and sets the state of its inputs: spent, or free if the mint
// refused.
func endOp(tx *sqlite.Tx, o op, state, notesState, failure string) error {
	if _, err := tx.Exec(`UPDATE ops SET state = ?, failure = ?, unsure_ms = 0 WHERE id = ?`, state, failure, o.id); err != nil {
		return fmt.Errorf("end %s: %w", o.kind, err)
	}
	_, err := tx.Exec(`UPDATE notes SET state = ?1, op = CASE ?1 WHEN 'free' THEN NULL ELSE op END WHERE op = ?2 AND state = 'reserved'`, notesState, o.id)
	return err
}
