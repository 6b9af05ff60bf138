// Package sqlite opens one SQLite file with the durability that a node needs to
// handle money: a write-ahead log, synchronous=FULL and every pragma read back. One
// writer commits the updates of concurrent callers together, and readers have their
// own connections.
//
// It is the only package that imports go-sqlite3.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxReaders bounds the read-only connections of one DB.
const maxReaders = 4

// Options says how a database is opened. The zero value opens it for writing,
// without a schema and without a lock against other processes.
type Options struct {
	// Migrations are SQL scripts, applied in order, one transaction each. The first
	// has the number First, and PRAGMA user_version is the number of the last one
	// applied. Never edit a script that was applied somewhere. A file with a higher
	// number is refused with [ErrTooNew].
	// Foreign keys must not be deferred, because a violation would then fail the
	// commit of a whole group of updates instead of the statement at fault.
	Migrations []string

	// First is the number of the first script; zero means 1. A file with a lower
	// number, unless it is new, is refused with [ErrUnreleased] and left as it is.
	First int

	// ReadOnly opens an existing file for View and Backup only. If its schema is not
	// at the last migration, it is refused with [ErrTooOld].
	ReadOnly bool

	// Old lets ReadOnly open a file in spite of ErrTooOld and ErrUnreleased. Use it
	// for Backup only, because its tables are not those that this program knows.
	Old bool

	// ExclusiveLock takes an flock on <path>.lock for the life of the DB. A
	// second opener is refused with a *LockedError. ReadOnly ignores it.
	ExclusiveLock bool
	// SharedLock takes the same lock together with every other DB that asks for it so:
	// several processes write, and one with ExclusiveLock is refused, as they are while
	// it has the file open. ReadOnly ignores it.
	SharedLock bool

	// Logger receives a line before and after each migration and after a failed
	// commit. Nil discards them.
	Logger *slog.Logger
}

// DB is an open database. Its methods may be called from many goroutines.
type DB struct {
	path string
	log  *slog.Logger
	lock *fileLock // nil without ExclusiveLock

	pools   []*sql.DB
	writer  *conn      // owned by the holder of turn; nil when ReadOnly
	readers chan *conn // the idle readers; capacity maxReaders

	turn   chan struct{} // capacity 1: full while an update leads a group
	queue  chan *update  // unbuffered, so an update that was received has begun
	closed chan struct{} // closed by Close; nothing begins after that
	once   sync.Once

	failure atomic.Pointer[error] // set by the first failed commit and never reset
	updates atomic.Uint64
	commits atomic.Uint64
}

// Stats are counters of the writer since Open.
type Stats struct {
	Updates uint64 // updates that became durable
	Commits uint64 // transactions, each with one fsync
}

// Open opens or creates the database at path. It creates the file with mode 0600 in a
// directory that must exist. ctx bounds the opening, but not the migrations.
func Open(ctx context.Context, path string, opt Options) (*DB, error) {
	path, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	db := &DB{
		path:    path,
		log:     opt.Logger,
		readers: make(chan *conn, maxReaders),
		turn:    make(chan struct{}, 1),
		queue:   make(chan *update),
		closed:  make(chan struct{}),
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	if err := db.open(ctx, opt); err != nil {
		return nil, errors.Join(err, db.release())
	}
	return db, nil
}

// checkPath refuses names that SQLite does not take for a file.
func checkPath(path string) (string, error) {
	if path == "" || strings.Contains(path, ":memory:") || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("open database %q: %w", path, ErrBadPath)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open database %q: %w", path, err)
	}
	return abs, nil
}

func (db *DB) open(ctx context.Context, opt Options) (err error) {
	if opt.ReadOnly {
		if _, err := os.Stat(db.path); err != nil {
			return fmt.Errorf("open database: %w", err)
		}
	} else {
		if opt.ExclusiveLock || opt.SharedLock {
			if db.lock, err = lockFile(db.path+".lock", !opt.ExclusiveLock); err != nil {
				return err
			}
		}
		if opt.SharedLock { // one after the other makes a file, or brings it up to date
			turn, err := lockTurn(ctx, db.path+".open")
			if err != nil {
				return err
			}
			defer func() { _ = turn.release() }()
		}

		if err := createFile(db.path); err != nil {
			return err
		}
		if db.writer, err = db.connect(ctx, false); err != nil {
			return err
		}
		if err := db.migrate(opt); err != nil {
			return err
		}
	}

	for range maxReaders {
		c, err := db.connect(ctx, true)
		if err != nil {
			return err
		}
		db.readers <- c
	}

	if opt.ReadOnly {
		err := db.checkVersion(ctx, opt)
		if opt.Old && (errors.Is(err, ErrTooOld) || errors.Is(err, ErrUnreleased)) {
			return nil
		}
		return err
	}
	return nil
}

// createFile creates the file with mode 0600 before SQLite would create it with
// another. SQLite gives the log files the same mode.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes new and renamed files in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// Path returns the absolute path of the database file.
func (db *DB) Path() string { return db.path }

// Stats returns the counters of the writer.
func (db *DB) Stats() Stats {
	return Stats{Updates: db.updates.Load(), Commits: db.commits.Load()}
}

// Err returns nil while updates are possible. After a failed commit it returns the
// error that made the database read-only, which wraps [ErrReadOnly].
func (db *DB) Err() error {
	if p := db.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// View runs fn in a read transaction. All its queries see one state, which includes
// every Update that returned before. ctx ends the wait for a connection and interrupts
// queries. SQLite refuses writes.
func (db *DB) View(ctx context.Context, fn func(tx *Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}

	select {
	case <-db.closed:
		return ErrClosed
	default:
	}

	var c *conn
	select {
	case c = <-db.readers:
	case <-db.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}

	defer func() { db.readers <- c }()
	if err := c.command("BEGIN"); err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	tx := &Tx{ctx: ctx, conn: c}
	defer func() {
		tx.finish()
		// Nothing was written, so a rollback loses nothing and cannot block.
		if rerr := c.command("ROLLBACK"); rerr != nil && err == nil {
			err = fmt.Errorf("end read: %w", rerr)
		}
	}()

	return fn(tx)
}

// Close waits for the calls that have begun, refuses later ones with [ErrClosed], and
// releases the lock. Further calls do nothing.
func (db *DB) Close() error {
	var err error
	db.once.Do(func() {
		close(db.closed)
		db.turn <- struct{}{}  // wait for the current group, and never give the turn back
		for range maxReaders { // a running View still holds its reader
			c := <-db.readers
			err = errors.Join(err, c.close())
		}
		err = errors.Join(err, db.release())
	})
	return err
}

// release closes everything that open has opened, also after open failed half way.
func (db *DB) release() error {
	var errs []error
	for len(db.readers) > 0 {
		errs = append(errs, (<-db.readers).close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.close())
	}

	// The writer goes last, because only it can checkpoint the log into the file.
	for _, p := range slices.Backward(db.pools) {
		errs = append(errs, p.Close())
	}
	if db.lock != nil {
		errs = append(errs, db.lock.release())
	}
	return errors.Join(errs...)
}
