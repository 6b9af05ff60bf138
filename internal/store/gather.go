package store

import (
	"context"
	"errors"
	"sync"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

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

// updateGathered is Update for what is short and comes often. fn must not panic. It
// may run on another goroutine, and once more if it was undone.
func (k *Store) updateGathered(ctx context.Context, fn func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	u := &gathered{fn: fn, done: make(chan gatherEnd, 1)}
	if k.gather.add(u) {
		k.runGathered()
	}
	end := <-u.done
	if end.undone {
		return k.Update(context.WithoutCancel(ctx), fn)
	}
	return end.err
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
func (k *Store) runGathered() {
	var (
		all    []*gathered
		failed bool
		end    = gatherEnd{err: errNotRun}
	)
	defer func() {
		if all == nil { // its turn never came
			all = k.gather.take()
		}
		for _, u := range all {
			u.done <- end
		}
	}()

	err := k.db.Update(context.Background(), func(tx *sqlite.Tx) error {
		all = k.gather.take()
		for _, u := range all {
			if err := u.fn(k.tx(tx)); err != nil {
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
