// Package store keeps everything a node must not forget in one database file:
// the journal, threads, directives, contents and the outbox, and on them the
// jobs it sells and the purchases it makes.
//
// Each change is a transaction over all of these at once (AP-14.2.1), durable
// when the method returns. Tables are append-only; the status of a thing is its
// newest row.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/contexts"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/sales"
)

// FileName is the database's name in the node's data directory.
const FileName = "node.db"

// Options says how a store is opened; the zero value is a node's own.
type Options struct {
	// ReadOnly opens it for looking only, beside a running node.
	ReadOnly bool
	// Shared opens it together with other processes that ask for it so. A process that
	// does not is refused meanwhile.
	Shared bool
	// Old lets ReadOnly open one that is not migrated yet, or was made before the
	// first release, for Backup alone.
	Old bool
	// Now is the clock; nil means time.Now. Stored times are milliseconds.
	Now func() time.Time
	// Logger receives what the storage has to say; nil discards it.
	Logger *slog.Logger
}

// Store is the node's open database. It is safe for concurrent use.
type Store struct {
	file *sqlite.DB
	db   *row.DB
	log  *slog.Logger
}

// Open opens or creates the database in dir, which is made (0700) if missing.
// A dir that another process has open is refused with a *sqlite.LockedError, a
// database from before the first release with sqlite.ErrUnreleased.
func Open(ctx context.Context, dir string, opt Options) (*Store, error) {
	if !opt.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data folder: %w", err)
		}
	}

	file := fileOptions()
	file.ReadOnly, file.Old, file.Logger = opt.ReadOnly, opt.Old, opt.Logger
	file.ExclusiveLock, file.SharedLock = !opt.Shared, opt.Shared
	db, err := sqlite.Open(ctx, filepath.Join(dir, FileName), file)
	if err != nil {
		return nil, err
	}

	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{file: db, db: row.NewDB(db, opt.Now), log: opt.Logger}, nil
}

// fileOptions are those of every store's file.
func fileOptions() sqlite.Options {
	return sqlite.Options{Migrations: migrations(), First: baseline, ExclusiveLock: true}
}

// Tx is one transaction over the whole store. Every method on it reads or
// writes within that transaction.
type Tx struct {
	*row.Tx
	journal.Journal
	contexts.Contexts
	outbox.Outbox
}

// Update runs fn in a transaction that is durable, all of it, when Update
// returns nil, and of which nothing is left otherwise. See sqlite.DB.Update for
// what fn may do.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.Update(ctx, func(tx *row.Tx) error { return fn(newTx(tx)) })
}

// View runs fn on one consistent state.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.View(ctx, func(tx *row.Tx) error { return fn(newTx(tx)) })
}

func newTx(tx *row.Tx) *Tx {
	return &Tx{Tx: tx, Journal: journal.Journal{Tx: tx}, Contexts: contexts.In(tx), Outbox: outbox.Outbox{Tx: tx}}
}

// Watch calls look at once, and again after each change that any process has committed,
// until look is done or fails, or ctx ends.
func (s *Store) Watch(ctx context.Context, look func(context.Context) (done bool, err error)) error {
	return s.file.Watch(ctx, look)
}

// PipelineLog is the log of a pipeline. A thread that has no record yet gets one under
// profile.
func (s *Store) PipelineLog(profile string) *journal.Log {
	return journal.NewLog(s.db, profile, s.log)
}

// Sales is the store of jobs. profile is that of their threads.
func (s *Store) Sales(profile string) *sales.Store { return sales.New(s.db, profile) }

// Purchases is the store of purchases.
func (s *Store) Purchases() *purchases.Store { return purchases.New(s.db) }

// Pruning is the store of what is kept of jobs, and for how long.
func (s *Store) Pruning() pruning.Store { return pruning.New(s.db) }

// ContextStore is the store of segments.
func (s *Store) ContextStore() contexts.Store { return contexts.NewStore(s.db) }

// Stats counts updates and commits since Open.
func (s *Store) Stats() sqlite.Stats { return s.file.Stats() }

// Backup writes a checked copy of the database to dest while the node works.
func (s *Store) Backup(ctx context.Context, dest string) error { return s.file.Backup(ctx, dest) }

// Side is whose database one is: each role has one of its own.
type Side string

const (
	Provider Side = "provider"
	Buyer    Side = "buyer"
)

// Restore puts a backup in the place of the database in dir and returns where
// the old one is kept. A node that has it open is a *sqlite.LockedError, a
// backup of the other side's work sqlite.ErrForeign, one from before the first
// release sqlite.ErrUnreleased.
func Restore(ctx context.Context, dir, backup string, side Side) (kept string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	return sqlite.Restore(ctx, filepath.Join(dir, FileName), backup, fileOptions(), side.foreign())
}

// CheckBackup refuses what [Restore] would, but for a node that runs.
func CheckBackup(ctx context.Context, backup string, side Side) error {
	return sqlite.CheckBackup(ctx, backup, fileOptions(), side.foreign())
}

// foreign is a table that is empty in a database of the side.
func (s Side) foreign() string {
	if s == Provider {
		return "purchases"
	}
	return "jobs"
}

// Close waits for what has begun and closes the database.
func (s *Store) Close() error { return s.file.Close() }

// Holds is [journal.Journal.Holds] in a transaction of its own.
func (s *Store) Holds(ctx context.Context, session, ref string) (held bool, err error) {
	err = s.View(ctx, func(tx *Tx) error {
		held, err = tx.Holds(session, ref)
		return err
	})
	return held, err
}
