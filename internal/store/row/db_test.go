package row_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 1_500_000, time.UTC)

// openWords is a database of one table, which refuses empty words.
func openWords(t *testing.T) (*row.DB, *sqlite.DB) {
	t.Helper()
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "words.db"), sqlite.Options{
		Migrations: []string{"CREATE TABLE words(word TEXT PRIMARY KEY CHECK (word <> '')) STRICT;\n" + row.AppendOnly("words")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return row.NewDB(file, func() time.Time { return start }), file
}

func add(tx *row.Tx, word string) error {
	_, err := tx.Exec("INSERT INTO words VALUES (?)", word)
	return err
}

// addOne is an update that is gathered with others.
func addOne(db *row.DB, word string) func() error {
	return func() error {
		return db.UpdateGathered(context.Background(), func(tx *row.Tx) error { return add(tx, word) })
	}
}

func words(t *testing.T, db *row.DB) (list []string) {
	t.Helper()
	err := db.View(t.Context(), func(tx *row.Tx) (err error) {
		list, err = tx.Strings("SELECT word FROM words ORDER BY word")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// whileBusy runs updates that all wait while another holds the writer, which ends
// with last. It returns the errors of each and of that one.
func whileBusy(t *testing.T, db *row.DB, updates []func() error, last func(tx *row.Tx) error) []error {
	t.Helper()
	errs := make([]error, len(updates), len(updates)+1)
	var wg sync.WaitGroup
	own := db.Update(t.Context(), func(tx *row.Tx) error {
		for i, update := range updates {
			wg.Go(func() { errs[i] = update() })
		}
		synctest.Wait() // all of them wait
		return last(tx)
	})
	wg.Wait()
	return append(errs, own)
}

func nothing(*row.Tx) error { return nil }

// rollback ends the transaction as SQLite does when the disk is full.
func rollback(tx *row.Tx) error {
	_, err := tx.Exec("ROLLBACK")
	return errors.Join(err, errors.New("disk full"))
}

// TestGathered: updates that come while the writer is busy are one commit.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, file := openWords(t)
		var updates []func() error
		for i := range 20 {
			updates = append(updates, addOne(db, fmt.Sprintf("w-%02d", i)))
		}
		before := file.Stats()
		if err := errors.Join(whileBusy(t, db, updates, nothing)...); err != nil {
			t.Fatal(err)
		}
		if s := file.Stats(); s.Updates-before.Updates != 2 || s.Commits-before.Commits != 1 {
			t.Errorf("%d updates, %d commits", s.Updates-before.Updates, s.Commits-before.Commits)
		}
		if got := words(t, db); len(got) != len(updates) {
			t.Errorf("kept %v", got)
		}
	})
}

// TestGatheredWithARefusedOne: who is refused harms nobody else.
func TestGatheredWithARefusedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := openWords(t)
		updates := []func() error{addOne(db, "a"), addOne(db, ""), addOne(db, "b")}
		for i, err := range whileBusy(t, db, updates, nothing) {
			if refused := i == 1; sqlite.IsConstraint(err) != refused || (err == nil) == refused {
				t.Errorf("update %d: %v", i, err)
			}
		}
		if got := words(t, db); len(got) != 2 {
			t.Errorf("kept %v", got)
		}
	})
}

// TestGatheredAndLost: nobody is told that an update is durable when its transaction
// is lost, and none is tried again.
func TestGatheredAndLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := openWords(t)
		ran := 0
		var updates []func() error
		for i := range 9 {
			updates = append(updates, func() error {
				return db.UpdateGathered(t.Context(), func(tx *row.Tx) error {
					ran++
					if err := add(tx, fmt.Sprint(i)); err != nil || ran < 5 {
						return err
					}
					return rollback(tx)
				})
			})
		}
		for i, err := range whileBusy(t, db, updates, nothing) {
			if !errors.Is(err, sqlite.ErrCommit) {
				t.Errorf("update %d: %v", i, err)
			}
		}
		if got := words(t, db); len(got) != 0 || ran != 5 {
			t.Errorf("kept %v, %d ran", got, ran)
		}
	})
}

// TestGatheredButNotBegun: a database that takes no more writes says so to all.
func TestGatheredButNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := openWords(t)
		errs := whileBusy(t, db, []func() error{addOne(db, "a"), addOne(db, "b")}, rollback)
		for i, err := range append(errs[:2], addOne(db, "c")()) {
			if !errors.Is(err, sqlite.ErrReadOnly) {
				t.Errorf("update %d: %v", i, err)
			}
		}
	})
}

// TestGatheredAfterItsContext: an update whose context has ended is not begun.
func TestGatheredAfterItsContext(t *testing.T) {
	db, _ := openWords(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := db.UpdateGathered(ctx, func(tx *row.Tx) error { return add(tx, "late") })
	if got := words(t, db); !errors.Is(err, context.Canceled) || len(got) != 0 {
		t.Errorf("%v, kept %v", err, got)
	}
}

// TestErrorsHaveTheNamesOfTheArea: each way into the database names its errors, and the
// database below it keeps its own.
func TestErrorsHaveTheNamesOfTheArea(t *testing.T) {
	db, _ := openWords(t)
	errOurs, errTheirs := errors.New("ours"), errors.New("theirs")
	named := db.NameErrors(func(err error) error {
		if errors.Is(err, errOurs) {
			return errTheirs
		}
		return err
	})
	for name, try := range map[string]func(*row.DB) error{
		"update":   func(db *row.DB) error { return db.Update(t.Context(), func(*row.Tx) error { return errOurs }) },
		"view":     func(db *row.DB) error { return db.View(t.Context(), func(*row.Tx) error { return errOurs }) },
		"gathered": func(db *row.DB) error { return db.UpdateGathered(t.Context(), func(*row.Tx) error { return errOurs }) },
	} {
		if err := try(named); !errors.Is(err, errTheirs) {
			t.Errorf("%s: %v", name, err)
		}
		if err := try(db); !errors.Is(err, errOurs) || errors.Is(err, errTheirs) {
			t.Errorf("%s, unnamed: %v", name, err)
		}
	}
}

// TestInstantOfATransaction: a transaction has one instant, cut to milliseconds.
func TestInstantOfATransaction(t *testing.T) {
	db, _ := openWords(t)
	err := db.View(t.Context(), func(tx *row.Tx) error {
		if got := tx.Now(); !got.Equal(start.Truncate(time.Millisecond)) || got != tx.Now() {
			t.Errorf("now is %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAppendOnly(t *testing.T) {
	db, _ := openWords(t)
	if err := addOne(db, "a")(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{"UPDATE words SET word = 'b'", "DELETE FROM words"} {
		err := db.Update(t.Context(), func(tx *row.Tx) error { _, err := tx.Exec(change); return err })
		if !sqlite.IsConstraint(err) {
			t.Errorf("%s: %v", change, err)
		}
	}
	if got := words(t, db); len(got) != 1 {
		t.Errorf("kept %v", got)
	}
}
