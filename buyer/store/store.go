// Package store keeps what a [buyer.Client] must not forget in an SQLite database, for
// any program that buys.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
)

// DB is a buyer's database: its purchases with all that proves them, and its budget.
// It may be used by several goroutines.
type DB struct{ db *store.Store }

// Errors of [Open] and [Restore]. A damaged file and a full disk are errors of their own
// words.
var (
	// ErrInUse: another process has the database open. It may be ending.
	ErrInUse = sqlite.ErrLocked
	// ErrTooNew: a newer version of this package made it.
	ErrTooNew = sqlite.ErrTooNew
	// ErrUnreleased: it is from before the first release, whose databases are not read.
	ErrUnreleased = sqlite.ErrUnreleased
	// ErrForeign: it is the database of a provider.
	ErrForeign = sqlite.ErrForeign
)

// Open opens the database in a folder, which is made if it is missing. One process at a
// time can have it open. [ErrInUse], [ErrTooNew], [ErrUnreleased], [ErrForeign].
func Open(ctx context.Context, folder string) (*DB, error) {
	db, err := store.Open(ctx, folder, store.Options{})
	if err != nil {
		return nil, err
	}

	sold, err := db.Sales("").Jobs(ctx, 1)
	if err == nil && len(sold) > 0 {
		err = fmt.Errorf("%w: %s holds the jobs of a provider", ErrForeign, folder)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &DB{db: db}, nil
}

// Restore puts a backup in the place of the database in a folder, which nobody may have
// open, and returns where the old one is kept. A copy by hand would not do: what a killed
// process left beside the old database would be played onto the new one.
func Restore(ctx context.Context, folder, backup string) (kept string, err error) {
	return store.Restore(ctx, folder, backup, store.Buyer)
}

// Store is what [buyer.Config] wants.
func (d *DB) Store() buyer.Store { return d.db.Purchases() }

// Panels is what package [github.com/lightwork-market/lightwork/buyer/panel] wants.
func (d *DB) Panels() panel.Store { return d.db.Purchases() }

// Unfinished lists the requests that a program which starts again goes on with, each by
// [buyer.Client.FollowOrder]: purchases that have not ended, and the last request of
// each order that may still ask another provider. Members of panels are not among them.
func (d *DB) Unfinished(ctx context.Context) (requestIDs []string, err error) {
	return d.db.Purchases().Unfinished(ctx)
}

// Backup writes a checked copy of the database to a file, while it is in use. [Restore]
// puts it back.
func (d *DB) Backup(ctx context.Context, file string) error { return d.db.Backup(ctx, file) }

// Close closes the database.
func (d *DB) Close() error { return d.db.Close() }
