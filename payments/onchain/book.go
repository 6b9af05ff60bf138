package onchain

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

// Book is what must not be forgotten: which address is for what, which request
// is settled, and each transaction that was signed, before anybody hears of it.
// It is kept in one SQLite file.
type Book struct{ db *sqlite.DB }

// Nothing is ever changed or deleted; what becomes of a row is a further row.
const bookSchema = `
CREATE TABLE requests (
  payment_hash     BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  address          TEXT NOT NULL UNIQUE,
  msats            INTEGER NOT NULL CHECK (msats > 0),
  description_hash BLOB NOT NULL CHECK (length(description_hash) = 32),
  expiry_s         INTEGER NOT NULL CHECK (expiry_s > 0),
  height           INTEGER NOT NULL,
  at_ms            INTEGER NOT NULL
) STRICT;
CREATE TABLE signed (
  payment_hash BLOB PRIMARY KEY REFERENCES requests(payment_hash),
  bolt11       TEXT NOT NULL
) STRICT;
CREATE TABLE cancels (
  payment_hash BLOB PRIMARY KEY REFERENCES requests(payment_hash),
  at_ms        INTEGER NOT NULL
) STRICT;
CREATE TABLE finals (
  payment_hash BLOB PRIMARY KEY REFERENCES requests(payment_hash),
  outpoints    TEXT NOT NULL,
  sats         INTEGER NOT NULL CHECK (sats > 0),
  height       INTEGER NOT NULL,
  at_ms        INTEGER NOT NULL
) STRICT;
CREATE TABLE losses (
  payment_hash BLOB PRIMARY KEY REFERENCES finals(payment_hash),
  at_ms        INTEGER NOT NULL
) STRICT;

CREATE TABLE sends (
  payment_hash BLOB PRIMARY KEY CHECK (length(payment_hash) = 32),
  bolt11       TEXT NOT NULL,
  label        TEXT NOT NULL,
  msats        INTEGER NOT NULL CHECK (msats > 0),
  sats         INTEGER NOT NULL CHECK (sats > 0),
  fee_sats     INTEGER NOT NULL CHECK (fee_sats >= 0),
  txid         TEXT NOT NULL,
  vout         INTEGER NOT NULL,
  raw          BLOB NOT NULL,
  at_ms        INTEGER NOT NULL
) STRICT;
CREATE TABLE sent (
  payment_hash BLOB PRIMARY KEY REFERENCES sends(payment_hash),
  at_ms        INTEGER NOT NULL
) STRICT;
`

// OpenBook opens or creates the file at path. Several processes may have it open:
// a hash has one row, whoever is first.
func OpenBook(ctx context.Context, path string, log *slog.Logger) (*Book, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Migrations: []string{bookSchema, refundsSchema}, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("open the book of payments on the chain: %w", err)
	}
	return &Book{db: db}, nil
}

// Close closes the file.
func (b *Book) Close() error { return b.db.Close() }

// request is what somebody was, or will be, asked to pay.
type request struct {
	want    payments.NewInvoice // without preimage
	address string
	height  int64 // of the chain when the address was made
	at      time.Time

	bolt11   string // "" until signed
	canceled bool
	final    *final
	lost     bool
}

// final is how a request was settled.
type final struct {
	outpoints string
	sats      int64
	height    int64
	at        time.Time
}

const requestColumns = `r.payment_hash, r.address, r.msats, r.description_hash, r.expiry_s, r.height, r.at_ms,
	coalesce(s.bolt11, ''), c.at_ms IS NOT NULL, l.at_ms IS NOT NULL, f.outpoints, f.sats, f.height, f.at_ms
	FROM requests r LEFT JOIN signed s USING (payment_hash) LEFT JOIN cancels c USING (payment_hash)
	LEFT JOIN finals f USING (payment_hash) LEFT JOIN losses l USING (payment_hash)`

// request returns what is known of a request; payments.ErrNotFound.
func (b *Book) request(ctx context.Context, hash payments.Hash) (request, error) {
	list, err := b.requests(ctx, "WHERE r.payment_hash = ?", hash[:])
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: no request %s was made here", payments.ErrNotFound, hash)
	}
	if err != nil {
		return request{}, err
	}
	return list[0], nil
}

// watched are the requests that the chain may still say something new about:
// those made since, and those that were settled above the height.
func (b *Book) watched(ctx context.Context, since time.Time, height int64) ([]request, error) {
	return b.requests(ctx, "WHERE (f.at_ms IS NULL AND r.at_ms >= ? AND s.bolt11 IS NOT NULL) OR (f.height >= ? AND l.at_ms IS NULL)",
		since.UnixMilli(), height)
}

func (b *Book) requests(ctx context.Context, where string, args ...any) (list []request, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		list = nil
		rows, err := tx.Query("SELECT "+requestColumns+" "+where, args...)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			r, err := scanRequest(rows)
			if err != nil {
				return err
			}
			list = append(list, r)
		}

		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read requests on the chain: %w", err)
	}
	return list, nil
}

func scanRequest(rows *sql.Rows) (r request, err error) {
	var hash, description []byte
	var expiry, at int64
	var outpoints sql.NullString
	var sats, height, finalAt sql.NullInt64
	err = rows.Scan(&hash, &r.address, &r.want.AmountMsats, &description, &expiry, &r.height, &at,
		&r.bolt11, &r.canceled, &r.lost, &outpoints, &sats, &height, &finalAt)
	if err != nil {
		return r, err
	}
	copy(r.want.PaymentHash[:], hash)
	copy(r.want.DescriptionHash[:], description)
	r.want.Hold, r.want.Expiry, r.at = true, time.Duration(expiry)*time.Second, time.UnixMilli(at).UTC()
	if finalAt.Valid {
		r.final = &final{outpoints.String, sats.Int64, height.Int64, time.UnixMilli(finalAt.Int64).UTC()}
	}
	return r, nil
}

func (b *Book) exec(ctx context.Context, what, query string, args ...any) error {
	err := b.db.Update(ctx, func(tx *sqlite.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (b *Book) addRequest(ctx context.Context, r request) error {
	return b.exec(ctx, "record address", `INSERT INTO requests (payment_hash, address, msats, description_hash, expiry_s, height, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (payment_hash) DO NOTHING`,
		r.want.PaymentHash[:], r.address, r.want.AmountMsats, r.want.DescriptionHash[:], int64(r.want.Expiry/time.Second), r.height, time.Now().UnixMilli())
}

func (b *Book) setSigned(ctx context.Context, hash payments.Hash, bolt11 string) error {
	return b.exec(ctx, "record request", "INSERT INTO signed (payment_hash, bolt11) VALUES (?, ?) ON CONFLICT DO NOTHING", hash[:], bolt11)
}

func (b *Book) cancel(ctx context.Context, hash payments.Hash) error {
	return b.exec(ctx, "record cancellation", "INSERT INTO cancels (payment_hash, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", hash[:], time.Now().UnixMilli())
}

func (b *Book) settle(ctx context.Context, hash payments.Hash, f final) error {
	return b.exec(ctx, "record settlement", "INSERT INTO finals (payment_hash, outpoints, sats, height, at_ms) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		hash[:], f.outpoints, f.sats, f.height, f.at.UnixMilli())
}

func (b *Book) lose(ctx context.Context, hash payments.Hash) error {
	return b.exec(ctx, "record loss", "INSERT INTO losses (payment_hash, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", hash[:], time.Now().UnixMilli())
}

// received is the sum of what was settled, in satoshi.
func (b *Book) received(ctx context.Context) (sats int64, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT coalesce(sum(sats), 0) FROM finals").Scan(&sats)
	})
	return sats, err
}

// send is a signed transaction of ours and what it is for.
type send struct {
	hash     payments.Hash
	bolt11   string
	label    string
	msats    int64 // asked for
	sats     int64 // sent: whole satoshi
	feeSats  int64
	txid     string
	vout     uint32
	raw      []byte
	at       time.Time
	finished bool
}

// send returns the one payment of a hash; payments.ErrNotFound.
func (b *Book) send(ctx context.Context, hash payments.Hash) (s send, err error) {
	s.hash = hash
	var at int64
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow(`SELECT s.bolt11, s.label, s.msats, s.sats, s.fee_sats, s.txid, s.vout, s.raw, s.at_ms, e.at_ms IS NOT NULL
			FROM sends s LEFT JOIN sent e USING (payment_hash) WHERE s.payment_hash = ?`, hash[:]).
			Scan(&s.bolt11, &s.label, &s.msats, &s.sats, &s.feeSats, &s.txid, &s.vout, &s.raw, &at, &s.finished)
	})
	s.at = time.UnixMilli(at).UTC()

	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s, fmt.Errorf("%w: nothing was sent for %s", payments.ErrNotFound, hash)
	case err != nil:
		return s, fmt.Errorf("read payment on the chain: %w", err)
	}

	return s, nil
}

// isSend reports whether an output is of a payment that the book has.
func (b *Book) isSend(ctx context.Context, txid string, vout uint32) (is bool, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT EXISTS (SELECT 1 FROM sends WHERE txid = ? AND vout = ?)", txid, vout).Scan(&is)
	})
	if err != nil {
		return false, fmt.Errorf("read payments on the chain: %w", err)
	}
	return is, nil
}

// costMsats is what a payment costs beside its amount: the fee, and the rounding
// up to whole satoshi.
func (s send) costMsats() int64 { return (s.sats+s.feeSats)*msatsPerSat - s.msats }

// addSend fails where the hash has a payment already.
func (b *Book) addSend(ctx context.Context, s send) error {
	return b.exec(ctx, "record transaction", `INSERT INTO sends (payment_hash, bolt11, label, msats, sats, fee_sats, txid, vout, raw, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, s.hash[:], s.bolt11, s.label, s.msats, s.sats, s.feeSats, s.txid, s.vout, s.raw, time.Now().UnixMilli())
}

func (b *Book) finish(ctx context.Context, hash payments.Hash) error {
	return b.exec(ctx, "record end of payment", "INSERT INTO sent (payment_hash, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", hash[:], time.Now().UnixMilli())
}
