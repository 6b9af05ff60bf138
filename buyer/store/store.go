// Package store keeps what a [buyer.Client] must not forget in an SQLite database, for
// any program that buys.
package store

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
)

// DB is a buyer's database: its purchases with all that proves them, and its budget.
// It may be used by several goroutines.
type DB struct{ db *store.Store }

// Open opens the database in a folder, which is made if it is missing. One process at a
// time can have it open.
func Open(ctx context.Context, folder string) (*DB, error) {
	db, err := store.Open(ctx, folder, store.Options{})
	if err != nil {
		return nil, err
	}
	return &DB{db: db}, nil
}

// Store is what [buyer.Config] wants.
func (d *DB) Store() buyer.Store { return d.db.Purchases() }

// Unfinished lists the requests of the purchases that have not ended, oldest first: a
// program that starts again goes on with each by [buyer.Client.Follow].
func (d *DB) Unfinished(ctx context.Context) (requestIDs []string, err error) {
	return d.db.Purchases().OpenPurchases(ctx)
}

// Backup writes a checked copy of the database to a file, while it is in use.
func (d *DB) Backup(ctx context.Context, file string) error { return d.db.Backup(ctx, file) }

// Close closes the database.
func (d *DB) Close() error { return d.db.Close() }
