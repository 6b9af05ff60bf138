package row

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// DB is the open database as each area stands on it. It is safe for concurrent use.
type DB struct {
	file   *sqlite.DB
	now    func() time.Time
	name   func(error) error
	gather *gather
}

// NewDB is the database in file with the clock now.
func NewDB(file *sqlite.DB, now func() time.Time) *DB {
	return &DB{file: file, now: now, name: func(err error) error { return err }, gather: &gather{}}
}

// NameErrors is the same database, whose errors get the names that those know for whom
// an area keeps something.
func (db *DB) NameErrors(name func(error) error) *DB {
	named := *db
	named.name = name
	return &named
}

// Update runs fn in a transaction that is durable, all of it, when Update
// returns nil, and of which nothing is left otherwise. See [sqlite.DB.Update] for
// what fn may do.
func (db *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return db.name(db.file.Update(ctx, func(tx *sqlite.Tx) error { return fn(NewTx(tx, db.now())) }))
}

// View runs fn on one consistent state.
func (db *DB) View(ctx context.Context, fn func(tx *Tx) error) error {
	return db.name(db.file.View(ctx, func(tx *sqlite.Tx) error { return fn(NewTx(tx, db.now())) }))
}

// errNotRun is what those hear whose leader did not return.
var errNotRun = errors.New("the update that this one was part of did not return")

// gather has the short updates that wait for one of them, the leader, to run them
// all: one goroutine that runs many costs less than each taking its turn.
type gather struct {
	mu      sync.Mutex
	waiting []*gathered // the first of them leads
}

type gathered struct {
	fn   func(tx *Tx) error
	done chan gatherEnd
}

// gatherEnd is what became of an update. One that is undone shared a transaction
// with one that failed, and is to be run by itself.
type gatherEnd struct {
	err    error
	undone bool
}

// UpdateGathered is [DB.Update] for what is short and comes often. fn must not panic.
// It may run on another goroutine, and once more if it was undone.
func (db *DB) UpdateGathered(ctx context.Context, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	u := &gathered{fn: fn, done: make(chan gatherEnd, 1)}
	if db.gather.add(u) {
		db.runGathered()
	}
	end := <-u.done
	if end.undone {
		return db.Update(context.WithoutCancel(ctx), fn)
	}
	return db.name(end.err)
}

// add reports whether u is to lead.
func (g *gather) add(u *gathered) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, u)
	return len(g.waiting) == 1
}

// take is all that wait; who comes after it leads the next.
func (g *gather) take() []*gathered {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.waiting
	g.waiting = nil
	return all
}

// runGathered is one update with all that wait when its turn has come.
func (db *DB) runGathered() {
	var (
		all    []*gathered
		failed bool
		end    = gatherEnd{err: errNotRun}
	)
	defer func() {
		if all == nil { // its turn never came
			all = db.gather.take()
		}
		for _, u := range all {
			u.done <- end
		}
	}()

	err := db.file.Update(context.Background(), func(tx *sqlite.Tx) error {
		all = db.gather.take()
		for _, u := range all {
			if err := u.fn(NewTx(tx, db.now())); err != nil {
				failed = true
				return err
			}
		}
		return nil
	})

	// Of a lost transaction nobody knows what is durable: none may be tried again.
	undone := failed && len(all) > 1 && !errors.Is(err, sqlite.ErrCommit)
	end = gatherEnd{err: err, undone: undone}
}
