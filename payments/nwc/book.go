package nwc

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// ErrBudget is returned by Book.Reserve for a payment that exceeds the app's
// budget.
var ErrBudget = errors.New("nwc: over the budget")

// Spend is a payment of an app and its cost: amount and fee.
type Spend struct {
	App    string // the app's public key
	Hash   payments.Hash
	BOLT11 string
	Msats  int64     // final cost; 0 if it failed
	Wallet string    // payments.Node.Wallet of the paying wallet; "" if it was not recorded
	At     time.Time // set by the Book, as are the fields below
	Open   bool      // the payment has not ended
	// LostMsats is the cost of failed attempts: a mint keeps its fees.
	LostMsats int64
}

// Usage is the used part of an app's budget in a period.
type Usage struct {
	SpentMsats    int64 // succeeded payments, and fees of failed ones
	ReservedMsats int64 // payments in flight
}

// Book is the durable record of a service: payments and invoices of each app, and
// the requests that were carried out. It is one SQLite file.
type Book struct{ db *sqlite.DB }

// bookSchema: the cost of a spend changes when it ends (0 if it failed); everything
// else is written once.
const bookSchema = `
CREATE TABLE spends (
  app          TEXT NOT NULL CHECK (length(app) = 64),
  payment_hash BLOB NOT NULL CHECK (length(payment_hash) = 32),
  bolt11       TEXT NOT NULL,
  at_ms        INTEGER NOT NULL,
  msats        INTEGER NOT NULL CHECK (msats >= 0),
  open         INTEGER NOT NULL CHECK (open IN (0, 1)),
  PRIMARY KEY (app, payment_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX spends_by_time ON spends (app, at_ms);
CREATE INDEX spends_open ON spends (open) WHERE open = 1;

CREATE TABLE invoices (
  payment_hash BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  app          TEXT NOT NULL CHECK (length(app) = 64),
  at_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX invoices_by_time ON invoices (app, at_ms);

CREATE TABLE requests (
  event_id TEXT PRIMARY KEY CHECK (length(event_id) = 64),
  at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_time ON requests (at_ms);
`

// bookWallets records the paying wallet and the cost of failures.
const bookWallets = `
ALTER TABLE spends ADD COLUMN wallet TEXT NOT NULL DEFAULT '';
ALTER TABLE spends ADD COLUMN lost_msats INTEGER NOT NULL DEFAULT 0 CHECK (lost_msats >= 0);
`

// OpenBook opens or creates the file at path and locks out other processes.
func OpenBook(ctx context.Context, path string, log *slog.Logger) (*Book, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Migrations: []string{bookSchema, bookWallets}, ExclusiveLock: true, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("open wallet service's book: %w", err)
	}
	return &Book{db: db}, nil
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// Reserve reserves the possible cost of a payment, if the app stays within
// budgetMsats since the given time; else it returns ErrBudget. A payment in flight
// or succeeded is not counted twice; a failed one may be started again.
func (b *Book) Reserve(ctx context.Context, s Spend, budgetMsats int64, since time.Time) error {
	now := time.Now().UnixMilli()
	return b.db.Update(ctx, func(tx *sqlite.Tx) error {
		var msats, open int64
		err := tx.QueryRow(`SELECT msats, open FROM spends WHERE app = ? AND payment_hash = ?`, s.App, s.Hash[:]).Scan(&msats, &open)
		if err == nil && (open == 1 || msats > 0) {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}

		used, err := usage(tx, s.App, since)
		if err != nil {
			return err
		}
		if s.Msats > budgetMsats-used.SpentMsats-used.ReservedMsats {
			return ErrBudget
		}

		_, err = tx.Exec(`INSERT INTO spends (app, payment_hash, bolt11, at_ms, msats, open, wallet) VALUES (?, ?, ?, ?, ?, 1, ?)
			ON CONFLICT DO UPDATE SET bolt11 = excluded.bolt11, at_ms = excluded.at_ms, msats = excluded.msats, open = 1, wallet = excluded.wallet`,
			s.App, s.Hash[:], s.BOLT11, now, s.Msats, s.Wallet)
		return err
	})
}

// usage adds up the app's spends. Payments in flight count no matter when they
// started.
func usage(tx *sqlite.Tx, app string, since time.Time) (u Usage, err error) {
	err = tx.QueryRow(`SELECT COALESCE(SUM(lost_msats + CASE open WHEN 0 THEN msats ELSE 0 END), 0), COALESCE(SUM(CASE open WHEN 1 THEN msats END), 0)
		FROM spends WHERE app = ? AND (at_ms >= ? OR open = 1)`, app, since.UnixMilli()).Scan(&u.SpentMsats, &u.ReservedMsats)
	return u, err
}

// Settle ends a payment in flight that succeeded and cost msats. A payment that has
// ended is not changed.
func (b *Book) Settle(ctx context.Context, app string, hash payments.Hash, msats int64) error {
	return b.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE spends SET msats = ?, open = 0 WHERE app = ? AND payment_hash = ? AND open = 1`, msats, app, hash[:])
		return err
	})
}

// Fail ends a payment in flight that failed. lostMsats is the cost, reported by the
// wallet, of all attempts to pay this invoice.
func (b *Book) Fail(ctx context.Context, app string, hash payments.Hash, lostMsats int64) error {
	return b.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`UPDATE spends SET msats = 0, open = 0, lost_msats = max(lost_msats, ?)
			WHERE app = ? AND payment_hash = ? AND open = 1`, lostMsats, app, hash[:])
		return err
	})
}

// Used returns the app's usage since the given time.
func (b *Book) Used(ctx context.Context, app string, since time.Time) (u Usage, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		u, err = usage(tx, app, since)
		return err
	})
	return u, err
}

// Open lists the payments in flight.
func (b *Book) Open(ctx context.Context) (list []Spend, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query(`SELECT app, payment_hash, bolt11, msats, wallet FROM spends WHERE open = 1`)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			s := Spend{Open: true}
			var hash []byte
			if err := rows.Scan(&s.App, &hash, &s.BOLT11, &s.Msats, &s.Wallet); err != nil {
				return err
			}
			copy(s.Hash[:], hash)
			list = append(list, s)
		}

		return rows.Err()
	})
	return list, err
}

// Spend returns the record of an app's payment, false if there is none.
func (b *Book) Spend(ctx context.Context, app string, hash payments.Hash) (s Spend, exists bool, err error) {
	s.App, s.Hash = app, hash
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		var ms int64
		err := tx.QueryRow(`SELECT bolt11, msats, at_ms, wallet, open, lost_msats FROM spends WHERE app = ? AND payment_hash = ?`,
			app, hash[:]).Scan(&s.BOLT11, &s.Msats, &ms, &s.Wallet, &s.Open, &s.LostMsats)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		s.At, exists = time.UnixMilli(ms).UTC(), err == nil
		return err
	})
	return s, exists, err
}

// AddInvoice records the app as the only owner of an invoice's hash.
func (b *Book) AddInvoice(ctx context.Context, app string, hash payments.Hash) error {
	now := time.Now().UnixMilli()
	return b.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO invoices (payment_hash, app, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, hash[:], app, now)
		return err
	})
}

// Owner returns the app that made the invoice, "" if none did.
func (b *Book) Owner(ctx context.Context, hash payments.Hash) (app string, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		err := tx.QueryRow(`SELECT app FROM invoices WHERE payment_hash = ?`, hash[:]).Scan(&app)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return app, err
}

// Begin records a request before it is carried out. It returns false if it was
// carried out before. Records older than keep are deleted.
func (b *Book) Begin(ctx context.Context, eventID string, keep time.Duration) (first bool, err error) {
	now := time.Now()
	err = b.db.Update(ctx, func(tx *sqlite.Tx) error {
		if _, err := tx.Exec(`DELETE FROM requests WHERE at_ms < ?`, now.Add(-keep).UnixMilli()); err != nil {
			return err
		}
		r, err := tx.Exec(`INSERT INTO requests (event_id, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING`, eventID, now.UnixMilli())
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		first = n == 1
		return err
	})
	return first, err
}

// line is an invoice or a payment of an app.
type line struct {
	hash     payments.Hash
	incoming bool
	at       time.Time
}

// lines lists the app's invoices and payments, the newest first.
func (b *Book) lines(ctx context.Context, app string, p listParams) (list []line, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query(`SELECT payment_hash, incoming, at_ms FROM (
				SELECT payment_hash, 1 AS incoming, at_ms FROM invoices WHERE app = ?1 AND ?2 <> 'outgoing'
				UNION ALL
				SELECT payment_hash, 0, at_ms FROM spends WHERE app = ?1 AND ?2 <> 'incoming')
			WHERE at_ms BETWEEN ?3 AND ?4 ORDER BY at_ms DESC, payment_hash LIMIT ?5 OFFSET ?6`,
			app, p.Type, p.From*1000, p.Until*1000+999, p.Limit, p.Offset)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var l line
			var hash []byte
			var ms int64
			if err := rows.Scan(&hash, &l.incoming, &ms); err != nil {
				return err
			}
			copy(l.hash[:], hash)
			l.at = time.UnixMilli(ms).UTC()
			list = append(list, l)
		}

		return rows.Err()
	})
	return list, err
}
