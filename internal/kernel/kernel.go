// Package kernel keeps everything a node must not forget in one database file:
// the journal, threads, directives, contents and the outbox, and on them the
// jobs it sells and the purchases it makes.
//
// Each change is a transaction over all of these at once (AP-14.2.1), durable
// when the method returns. Tables are append-only; the status of a thing is its
// newest row.
package kernel

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// FileName is the database's name in the node's data directory.
const FileName = "node.db"

// Options says how a kernel is opened; the zero value is a node's own.
type Options struct {
	// ReadOnly opens it for looking only, beside a running node.
	ReadOnly bool
	// Old lets ReadOnly open one that is not migrated yet, or was made before the
	// first release, for Backup alone.
	Old bool
	// Now is the clock; nil means time.Now. Stored times are milliseconds.
	Now func() time.Time
	// Logger receives what the storage has to say; nil discards it.
	Logger *slog.Logger
}

// Kernel is the node's open database. It is safe for concurrent use.
type Kernel struct {
	db  *sqlite.DB
	now func() time.Time
	log *slog.Logger

	gather gather
}

// Open opens or creates the database in dir, which is made (0700) if missing.
// A dir that another process has open is refused with a *sqlite.LockedError, a
// database from before the first release with sqlite.ErrUnreleased.
func Open(ctx context.Context, dir string, opt Options) (*Kernel, error) {
	if !opt.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data folder: %w", err)
		}
	}
	file := fileOptions()
	file.ReadOnly, file.Old, file.Logger = opt.ReadOnly, opt.Old, opt.Logger
	db, err := sqlite.Open(ctx, filepath.Join(dir, FileName), file)
	if err != nil {
		return nil, err
	}
	k := &Kernel{db: db, now: opt.Now, log: opt.Logger}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

// fileOptions are those of every kernel's file.
func fileOptions() sqlite.Options {
	return sqlite.Options{Migrations: migrations(), First: baseline, ExclusiveLock: true}
}

// Tx is one transaction over the whole kernel. Every method on it reads or
// writes within that transaction.
type Tx struct {
	*sqlite.Tx
	now time.Time
}

// Now is the instant of the transaction, in UTC and whole milliseconds: the one
// time that all its rows carry.
func (tx *Tx) Now() time.Time { return tx.now }

// Update runs fn in a transaction that is durable, all of it, when Update
// returns nil, and of which nothing is left otherwise. See sqlite.DB.Update for
// what fn may do.
func (k *Kernel) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return k.db.Update(ctx, func(tx *sqlite.Tx) error { return fn(k.tx(tx)) })
}

// View runs fn on one consistent state.
func (k *Kernel) View(ctx context.Context, fn func(tx *Tx) error) error {
	return k.db.View(ctx, func(tx *sqlite.Tx) error { return fn(k.tx(tx)) })
}

func (k *Kernel) tx(tx *sqlite.Tx) *Tx { return &Tx{Tx: tx, now: fromMs(k.now().UnixMilli())} }

// Err is not nil once a commit failed: the node must stop taking work and say
// so (P17). It wraps sqlite.ErrReadOnly.
func (k *Kernel) Err() error { return k.db.Err() }

// Stats counts updates and commits since Open.
func (k *Kernel) Stats() sqlite.Stats { return k.db.Stats() }

// Backup writes a checked copy of the database to dest while the node works.
func (k *Kernel) Backup(ctx context.Context, dest string) error { return k.db.Backup(ctx, dest) }

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
	foreign := "jobs"
	if side == Provider {
		foreign = "purchases"
	}
	return sqlite.Restore(ctx, filepath.Join(dir, FileName), backup, fileOptions(), foreign)
}

// Close waits for what has begun and closes the database.
func (k *Kernel) Close() error { return k.db.Close() }

// toMs is how a time is stored; the zero time is NULL.
func toMs(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func fromMs(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func fromNullMs(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return fromMs(ms.Int64)
}

// text stores "" as NULL.
func text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// bytes32 scans a column that the schema holds to 32 bytes, or NULL to zero.
type bytes32[T ~[32]byte] struct{ dst *T }

func (b bytes32[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*b.dst = T{}
	case []byte:
		if len(v) != 32 {
			return fmt.Errorf("%d bytes in a column of 32: %w", len(v), ErrCorrupt)
		}
		*b.dst = T(v)
	default:
		return fmt.Errorf("%T in a column of bytes: %w", v, ErrCorrupt)
	}
	return nil
}

func into[T ~[32]byte](dst *T) bytes32[T] { return bytes32[T]{dst} }

// blob stores 32 bytes, or NULL for zero.
func blob[T ~[32]byte](v T) []byte {
	if v == (T{}) {
		return nil
	}
	return v[:]
}

func blobPtr(d *hashing.Digest) []byte {
	if d == nil {
		return nil
	}
	return d[:]
}
