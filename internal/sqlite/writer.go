package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/mattn/go-sqlite3"
)

// maxGroup bounds the updates that share one commit, and so the wait of the first.
const maxGroup = 128

// errAbandoned marks an update whose function panicked or ended its goroutine.
var errAbandoned = errors.New("update did not return")

// update is an update in a group that another caller leads. The leader lends it the
// connection from granted to finished.
type update struct {
	granted  chan grant
	finished chan error // the error of the function
	done     chan error // the outcome of the group
}

type grant struct {
	tx  *Tx
	err error
}

// Update runs fn in a write transaction and returns after the change is durable.
// Concurrent updates share one transaction and one fsync. An error or a panic in fn
// undoes only the writes of fn.
//
// ctx bounds only the wait for the turn: an update that has begun runs to its end. fn
// runs on the caller's goroutine and blocks every other writer, so it must neither wait
// for anything nor call Update.
//
// An error that wraps [ErrCommit] means that the outcome is unknown. From then on the
// database is read-only.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.writer == nil {
		return ErrReadOnly
	}

	select {
	case db.turn <- struct{}{}:
		return db.lead(ctx, fn)
	default:
	}

	u := &update{
		granted:  make(chan grant, 1),
		finished: make(chan error, 1),
		done:     make(chan error, 1),
	}

	select {
	case db.turn <- struct{}{}:
		return db.lead(ctx, fn)
	case db.queue <- u:
		return u.follow(fn)
	case <-db.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lead begins a transaction, runs fn and the queued updates in it, and ends it. It then
// gives back the turn, which the caller must hold.
func (db *DB) lead(ctx context.Context, fn func(tx *Tx) error) error {
	defer func() { <-db.turn }()

	select {
	case <-db.closed:
		return ErrClosed
	default:
	}

	if err := db.Err(); err != nil {
		return err
	}
	if err := db.begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := db.runFirst(fn); err != nil {
		return err
	}

	return db.commitGroup()
}

// busyTries is how often a writer waits busyTimeoutMs for the writers of other
// processes: SQLite lets them in by chance, so of many on a slow disk one may be late.
const busyTries = 12

// begin begins a write transaction.
func (db *DB) begin(ctx context.Context) (err error) {
	for range busyTries {
		err = db.writer.command("BEGIN IMMEDIATE")
		if !isCode(err, sqlite3.ErrBusy) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// runFirst runs fn as the first of the transaction. It needs no savepoint, because a
// rollback of the transaction undoes fn alone.
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

// commitGroup runs the queued updates after the first one and commits them all.
func (db *DB) commitGroup() error {
	var (
		members []*update
		kept    = uint64(1)
		err     error
	)
	if !db.writer.inTx() { // a savepoint would begin a transaction, and its release commit it
		return db.end(kept, ErrTxDone)
	}

	// Goroutines that are about to write get the chance to join. Yielding costs far
	// less than a second commit.
	runtime.Gosched()
	for u := db.dequeue(1); u != nil; u = db.dequeue(1 + len(members)) {
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
	// fn may have read the writes of other members, so until the group is durable its
	// error is as uncertain as their success.
	if cerr := <-u.done; cerr != nil {
		return cerr
	}
	return err
}

// run calls fn and gives the connection back, even if fn panics or calls
// runtime.Goexit, which then continue in the caller.
func (u *update) run(tx *Tx, fn func(tx *Tx) error) error {
	err := errAbandoned
	defer func() {
		tx.finish()
		u.finished <- err
	}()
	err = fn(tx)
	return err
}

// dequeue returns an update from the queue. It returns nil if the queue is empty or the
// group, which has size members, is full.
func (db *DB) dequeue(size int) *update {
	if size >= maxGroup {
		return nil
	}
	select {
	case u := <-db.queue:
		return u
	default:
		return nil
	}
}

// runOne lends the connection to u inside a savepoint, and reports whether the writes
// of u stay. An error means that the whole transaction is lost.
func (db *DB) runOne(u *update) (kept bool, err error) {
	if err := db.writer.command("SAVEPOINT u"); err != nil {
		u.granted <- grant{err: fmt.Errorf("savepoint: %w", err)}
		return false, err
	}
	u.granted <- grant{tx: &Tx{ctx: context.Background(), conn: db.writer}}
	if ferr := <-u.finished; ferr != nil {
		// After errors such as ENOSPC, SQLite rolls the transaction back by itself.
		// Then the savepoint and the writes of earlier members are gone.
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

// end ends the transaction: it commits if kept is above 0 and failure is nil. After a
// failure the state of the disk is unknown, so the database refuses all later writes.
func (db *DB) end(kept uint64, failure error) error {
	if failure == nil && kept == 0 {
		failure = db.writer.command("ROLLBACK")
		if failure == nil {
			return nil
		}
	}

	if failure == nil {
		failure = db.writer.command("COMMIT")
	}
	if failure == nil {
		db.commits.Add(1)
		db.updates.Add(kept)
		return nil
	}
	if db.writer.inTx() {
		_ = db.writer.command("ROLLBACK") // failure is the error to report
	}
	readOnly := fmt.Errorf("%w since a commit failed: %w", ErrReadOnly, failure)
	db.failure.Store(&readOnly)
	db.log.Error("commit failed: database is read-only until it is opened again", "path", db.path, "error", failure)
	return fmt.Errorf("%w: %w", ErrCommit, failure)
}
