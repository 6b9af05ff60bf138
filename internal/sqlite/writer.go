package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// maxGroup bounds the updates that share one commit, and with it the time that
// the first of them waits.
const maxGroup = 128

// errAbandoned marks an update whose function panicked or ended its goroutine.
var errAbandoned = errors.New("update did not return")

// update is a caller's part of a group that another caller leads. The leader
// lends it the connection between granted and finished.
type update struct {
	granted  chan grant
	finished chan error // the function's error
	done     chan error // the group's outcome
}

type grant struct {
	tx  *Tx
	err error
}

// Update runs fn in a write transaction and returns once the change is durable.
// Concurrent updates share one transaction and one fsync; an error or a panic in
// fn undoes fn's writes alone.
//
// ctx only bounds the wait for the turn: an update that has begun is finished.
// fn runs on the caller's goroutine and holds up every other writer: it must
// neither wait for anything nor call Update.
//
// An error that wraps ErrCommit means that the outcome is not known; from then
// on the database is read-only.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.writer == nil {
		return ErrReadOnly
	}
	select {
	case db.turn <- struct{}{}:
		return db.lead(fn)
	default:
	}
	u := &update{
		granted:  make(chan grant, 1),
		finished: make(chan error, 1),
		done:     make(chan error, 1),
	}
	select {
	case db.turn <- struct{}{}:
		return db.lead(fn)
	case db.queue <- u:
		return u.follow(fn)
	case <-db.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lead begins a transaction, runs fn in it and then everything that is waiting,
// and ends it. The caller's turn is over when lead returns.
func (db *DB) lead(fn func(tx *Tx) error) error {
	defer func() { <-db.turn }()
	select {
	case <-db.closed:
		return ErrClosed
	default:
	}
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.writer.command("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := db.runFirst(fn); err != nil {
		return err
	}
	return db.commitWith()
}

// runFirst runs fn with nothing before it in the transaction: to undo it takes no
// savepoint, but the end of the transaction.
func (db *DB) runFirst(fn func(tx *Tx) error) (err error) {
	tx, kept := &Tx{ctx: context.Background(), conn: db.writer}, false
	defer func() {
		tx.finish()
		if kept {
			return
		}
		if rerr := db.end(0, nil); rerr != nil {
			err = rerr
		}
	}()
	err = fn(tx)
	kept = err == nil
	return err
}

// commitWith runs what is waiting behind the first update and commits them all.
func (db *DB) commitWith() error {
	var (
		members []*update
		kept    = uint64(1)
		err     error
	)
	if !db.writer.inTx() { // a savepoint would begin another, and its release commit it
		return db.end(kept, ErrTxDone)
	}
	// Whoever is about to write gets to the queue first: a commit costs more than
	// this, and alone it is nothing.
	runtime.Gosched()
	for u := db.waiting(1); u != nil; u = db.waiting(1 + len(members)) {
		var ok bool
		ok, err = db.runOne(u)
		members = append(members, u)
		if err != nil {
			break
		}
		if ok {
			kept++
		}
	}
	err = db.end(kept, err)
	for _, u := range members {
		u.done <- err
	}
	return err
}

// follow waits for the leader's grant, runs fn, and waits for the outcome.
func (u *update) follow(fn func(tx *Tx) error) error {
	g := <-u.granted
	if g.err != nil {
		return g.err
	}
	err := u.run(g.tx, fn)
	// fn may have judged by what others of the group wrote, so its own error
	// is as unproven as their success until the group is durable.
	if cerr := <-u.done; cerr != nil {
		return cerr
	}
	return err
}

// run calls fn and gives the connection back, also when fn panics or calls
// runtime.Goexit; those go on in the caller.
func (u *update) run(tx *Tx, fn func(tx *Tx) error) error {
	err := errAbandoned
	defer func() {
		tx.finish()
		u.finished <- err
	}()
	err = fn(tx)
	return err
}

// waiting returns an update that is already queued, or nil.
func (db *DB) waiting(n int) *update {
	if n >= maxGroup {
		return nil
	}
	select {
	case u := <-db.queue:
		return u
	default:
		return nil
	}
}

// runOne lends the connection to u inside a savepoint. It reports whether u's
// writes stay. An error means that the whole transaction is lost.
func (db *DB) runOne(u *update) (kept bool, err error) {
	if err := db.writer.command("SAVEPOINT u"); err != nil {
		u.granted <- grant{err: fmt.Errorf("savepoint: %w", err)}
		return false, err
	}
	u.granted <- grant{tx: &Tx{ctx: context.Background(), conn: db.writer}}
	if ferr := <-u.finished; ferr != nil {
		// SQLite ends the transaction by itself after ENOSPC and the like: then
		// the savepoint is gone and the earlier members' writes with it.
		err := db.writer.command("ROLLBACK TO u")
		if err == nil {
			err = db.writer.command("RELEASE u")
		}
		if err != nil {
			return false, errors.Join(ferr, err)
		}
		return false, nil
	}
	if err := db.writer.command("RELEASE u"); err != nil {
		return false, err
	}
	return true, nil
}

// end commits if anything was kept and nothing broke. After a failure nothing
// says what reached the disk, so no later write may build on it.
func (db *DB) end(kept uint64, broken error) error {
	if broken == nil && kept == 0 {
		broken = db.writer.command("ROLLBACK")
		if broken == nil {
			return nil
		}
	}
	if broken == nil {
		broken = db.writer.command("COMMIT")
	}
	if broken == nil {
		db.commits.Add(1)
		db.updates.Add(kept)
		return nil
	}
	if db.writer.inTx() {
		_ = db.writer.command("ROLLBACK") // broken is the error that counts
	}
	readOnly := fmt.Errorf("%w since a commit failed: %w", ErrReadOnly, broken)
	db.failure.Store(&readOnly)
	db.log.Error("commit failed: database is read-only until it is opened again", "path", db.path, "error", broken)
	return fmt.Errorf("%w: %w", ErrCommit, broken)
}
