// Package store keeps what one gateway must not forget, in an SQLite file of its own. A
// transaction is a Tx; the areas Outbox, Inbox, Tasks and Control are views of it, so
// that what belongs together changes together.
package store

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

//go:embed schema.sql
var schema string

// ErrForeign: the file is that of another gateway.
var ErrForeign = errors.New("the database is that of another gateway")

// DB is an open database. It may be used by several goroutines.
type DB struct {
	file *sqlite.DB
	now  func() time.Time
}

// Options are of Open.
type Options struct {
	Node   string // whose database it is
	Now    func() time.Time
	Logger *slog.Logger
}

// Open opens or creates the database at path. One process at a time can have it open.
func Open(ctx context.Context, path string, opt Options) (*DB, error) {
	file, err := sqlite.Open(ctx, path, sqlite.Options{Migrations: []string{schema}, ExclusiveLock: true, Logger: opt.Logger})
	if err != nil {
		return nil, err
	}

	db := &DB{file: file, now: opt.Now}
	err = db.Update(ctx, func(tx *Tx) error {
		if _, err := tx.exec("INSERT OR IGNORE INTO self VALUES (1, ?, '', 1, 1, 0)", opt.Node); err != nil {
			return err
		}
		var node string
		if err := tx.sql.QueryRow("SELECT node FROM self").Scan(&node); err != nil {
			return err
		}
		if node != opt.Node {
			return fmt.Errorf("%w: %s is of %s, and this is %s", ErrForeign, path, node, opt.Node)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return db, nil
}

// Close waits for the transactions that have begun.
func (db *DB) Close() error { return db.file.Close() }

// Err says why the database takes no more writes; nil while it does.
func (db *DB) Err() error { return db.file.Err() }

// Update runs fn in a transaction that is durable, all of it, when Update returns nil,
// and of which nothing is left otherwise.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return db.file.Update(ctx, func(tx *sqlite.Tx) error { return fn(&Tx{sql: tx, Now: db.now()}) })
}

// View runs fn on one consistent state.
func (db *DB) View(ctx context.Context, fn func(tx *Tx) error) error {
	return db.file.View(ctx, func(tx *sqlite.Tx) error { return fn(&Tx{sql: tx, Now: db.now()}) })
}

// Tx is a transaction, with the time at which it began.
type Tx struct {
	sql *sqlite.Tx
	Now time.Time
}

// exec returns how many rows changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	res, err := tx.sql.Exec(query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// run is exec for which the number does not matter.
func (tx *Tx) run(query string, args ...any) error {
	_, err := tx.exec(query, args...)
	return err
}

// one scans the only row, and says whether there is one.
func (tx *Tx) one(dest []any, query string, args ...any) (bool, error) {
	err := tx.sql.QueryRow(query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// all scans each row into a value of its own.
func all[T any](tx *Tx, dest func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := tx.sql.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	var values []T
	for rows.Next() {
		var value T
		if err := rows.Scan(dest(&value)...); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// unix is how a time is kept; 0 is no time.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromUnix(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
