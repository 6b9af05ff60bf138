package journal_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// whileBusy runs updates that all wait while another holds the writer, which ends
// with last. It returns the errors of each and of that one.
func whileBusy(t *testing.T, k *storetest.DB, updates []func() error, last func(tx *store.Tx) error) []error {
	t.Helper()
	errs := make([]error, len(updates), len(updates)+1)
	var wg sync.WaitGroup
	own := k.Update(t.Context(), func(tx *store.Tx) error {
		for i, update := range updates {
			wg.Go(func() { errs[i] = update() })
		}
		synctest.Wait() // all of them wait
		return last(tx)
	})
	wg.Wait()
	return append(errs, own)
}

func nothing(*store.Tx) error { return nil }

// TestGatheredEntries: entries that come while the writer is busy are one update,
// threads that are new included.
func TestGatheredEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := storetest.Open(t)
		var updates []func() error
		for i := range 20 {
			updates = append(updates, storetest.AppendOne(k.Store, fmt.Sprintf("root.t-%d", i), "h"))
		}
		before := k.Stats()
		storetest.Must(t, errors.Join(whileBusy(t, k, updates, nothing)...))
		if s := k.Stats(); s.Updates-before.Updates != 2 || s.Commits-before.Commits != 1 {
			t.Errorf("%d updates, %d commits", s.Updates-before.Updates, s.Commits-before.Commits)
		}
		k.Reopen(t)
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
		k := storetest.Open(t)
		var updates []func() error
		for i := range 9 {
			handler := "h"
			if i == 4 {
				handler = "" // which the schema refuses
			}
			updates = append(updates, storetest.AppendOne(k.Store, fmt.Sprintf("root.t-%d", i), handler))
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

// TestGatheredButNotBegun: a store that takes no more writes says so to all.
func TestGatheredButNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := storetest.Open(t)
		errs := whileBusy(t, k, []func() error{storetest.AppendOne(k.Store, "root.a", "h"), storetest.AppendOne(k.Store, "root.b", "h")}, func(tx *store.Tx) error {
			_, err := tx.Exec("ROLLBACK")
			return err
		})
		for i, err := range append(errs[:2], storetest.AppendOne(k.Store, "root.c", "h")()) {
			if !errors.Is(err, sqlite.ErrReadOnly) {
				t.Errorf("update %d: %v", i, err)
			}
		}
	})
}
