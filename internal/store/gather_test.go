package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// whileBusy runs updates that all wait while another holds the writer, which ends
// with last. It returns the errors of each and of that one.
func whileBusy(t *testing.T, k *testStore, updates []func() error, last func(tx *Tx) error) []error {
	t.Helper()
	errs := make([]error, len(updates), len(updates)+1)
	var wg sync.WaitGroup
	own := k.Update(t.Context(), func(tx *Tx) error {
		for i, update := range updates {
			wg.Go(func() { errs[i] = update() })
		}
		synctest.Wait() // all of them wait
		return last(tx)
	})
	wg.Wait()
	return append(errs, own)
}

func nothing(*Tx) error { return nil }

func appendOne(k *Store, thread, handler string) func() error {
	return func() error {
		return k.PipelineLog("p").Append(context.Background(), pipeline.Entry{
			Thread: pipeline.ThreadID(thread), Direction: pipeline.Outbound, Handler: handler, PayloadTag: "t",
			PayloadHash: digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainForever},
		})
	}
}

// TestGatheredEntries: entries that come while the writer is busy are one update,
// threads that are new included.
func TestGatheredEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t)
		var updates []func() error
		for i := range 20 {
			updates = append(updates, appendOne(k.Store, fmt.Sprintf("root.t-%d", i), "h"))
		}
		before := k.Stats()
		must(t, errors.Join(whileBusy(t, k, updates, nothing)...))
		if s := k.Stats(); s.Updates-before.Updates != 2 || s.Commits-before.Commits != 1 {
			t.Errorf("%d updates, %d commits", s.Updates-before.Updates, s.Commits-before.Commits)
		}
		k.reopen(t)
		for i := range updates {
			if n := len(entriesOf(t, k, journal.Filter{Thread: fmt.Sprintf("root.t-%d", i)})); n != 1 {
				t.Errorf("thread %d has %d entries", i, n)
			}
		}
	})
}

// TestGatheredWithABrokenOne: who is refused harms nobody else.
func TestGatheredWithABrokenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t)
		var updates []func() error
		for i := range 9 {
			handler := "h"
			if i == 4 {
				handler = "" // which the schema refuses
			}
			updates = append(updates, appendOne(k.Store, fmt.Sprintf("root.t-%d", i), handler))
		}
		for i, err := range whileBusy(t, k, updates, nothing) {
			broken := i == 4
			if sqlite.IsConstraint(err) != broken || (err == nil) == broken {
				t.Errorf("update %d: %v", i, err)
			}
		}
		for i := range updates {
			if n := len(entriesOf(t, k, journal.Filter{Thread: fmt.Sprintf("root.t-%d", i)})); (n == 1) == (i == 4) {
				t.Errorf("thread %d has %d entries", i, n)
			}
		}
	})
}

// TestGatheredAndLost: nobody is told that an entry is durable when its transaction
// is lost, and none is tried again.
func TestGatheredAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t)
		ran := 0
		var updates []func() error
		for i := range 9 {
			updates = append(updates, func() error {
				return k.db.UpdateGathered(t.Context(), func(rows *row.Tx) error {
					tx := newTx(rows)
					ran++
					if err := tx.EnsureThread(fmt.Sprintf("root-%d", i), "p"); err != nil || ran < 5 {
						return err
					}
					_, err := tx.Exec("ROLLBACK") // as SQLite does when the disk is full
					return errors.Join(err, errors.New("disk full"))
				})
			})
		}
		for i, err := range whileBusy(t, k, updates, nothing) {
			if !errors.Is(err, sqlite.ErrCommit) {
				t.Errorf("update %d: %v", i, err)
			}
		}
		if n := k.count(t, "SELECT count(*) FROM threads"); n != 0 || ran != 5 {
			t.Errorf("%d threads, %d ran", n, ran)
		}
	})
}

// TestGatheredButNotBegun: a store that takes no more writes says so to all.
func TestGatheredButNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t)
		errs := whileBusy(t, k, []func() error{appendOne(k.Store, "root.a", "h"), appendOne(k.Store, "root.b", "h")}, func(tx *Tx) error {
			_, err := tx.Exec("ROLLBACK")
			return err
		})
		for i, err := range append(errs[:2], appendOne(k.Store, "root.c", "h")()) {
			if !errors.Is(err, sqlite.ErrReadOnly) {
				t.Errorf("update %d: %v", i, err)
			}
		}
	})
}
