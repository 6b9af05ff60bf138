package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// occupy holds the writer inside an update until release is called, so that a
// test can queue others behind it; they then share its transaction.
func occupy(t *testing.T, db *DB) (release func()) {
	t.Helper()
	begun, wait, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.Update(context.WithoutCancel(t.Context()), func(*Tx) error {
			close(begun)
			<-wait
			return nil
		})
	}()
	<-begun
	return func() {
		close(wait)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestConcurrentUpdatesShareCommits(t *testing.T) {
	db := open(t, temp(t), Options{})
	const callers, each = 32, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				if err := db.Update(t.Context(), insert(fmt.Sprint(c, "/", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := db.Stats()
	if s.Updates != callers*each {
		t.Errorf("%d updates, want %d", s.Updates, callers*each)
	}
	if s.Commits > s.Updates/2 {
		t.Errorf("%d commits for %d updates: they are not shared", s.Commits, s.Updates)
	}
	if got := len(values(t, db)); got != callers*each {
		t.Errorf("%d rows, want %d", got, callers*each)
	}
}

func TestOneUpdateAloneCommitsAtOnce(t *testing.T) {
	db := open(t, temp(t), Options{})
	for i := range 5 {
		if err := db.Update(t.Context(), insert(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		if s := db.Stats(); s.Commits != uint64(i+1) {
			t.Fatalf("%d commits after %d updates", s.Commits, i+1)
		}
	}
}

// TestSavepointsIsolateGroupMembers has one group in which members succeed,
// fail, panic and leave their goroutine.
func TestSavepointsIsolateGroupMembers(t *testing.T) {
	db := open(t, temp(t), Options{})
	release := occupy(t, db)
	var (
		wg     sync.WaitGroup
		failed = errors.New("my own failure")
	)
	for i := range 12 {
		wg.Go(func() {
			defer func() {
				if p := recover(); (p == "boom") != (i%4 == 2) {
					t.Errorf("member %d: recovered %v", i, p)
				}
			}()
			err := db.Update(t.Context(), func(tx *Tx) error {
				if err := insert(strconv.Itoa(i))(tx); err != nil {
					return err
				}
				switch i % 4 {
				case 1:
					return failed
				case 2:
					panic("boom")
				case 3:
					runtime.Goexit()
				}
				return nil
			})
			if want := map[int]error{0: nil, 1: failed}[i%4]; !errors.Is(err, want) {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	release()
	wg.Wait()
	got := values(t, db)
	for i := range 12 {
		if want := i%4 == 0; got[strconv.Itoa(i)] != want {
			t.Errorf("row of member %d: %v, want %v", i, !want, want)
		}
	}
}

func TestAnErrorWritesNothing(t *testing.T) {
	db := open(t, temp(t), Options{})
	before := db.Stats().Commits
	failed := errors.New("no")
	err := db.Update(t.Context(), func(tx *Tx) error {
		return errors.Join(insert("a")(tx), failed)
	})
	if !errors.Is(err, failed) || len(values(t, db)) != 0 {
		t.Fatalf("err %v, rows %v", err, values(t, db))
	}
	if db.Stats().Commits != before {
		t.Error("a transaction with nothing in it was committed")
	}
}

func TestCancelBeforeTheTurn(t *testing.T) {
	db := open(t, temp(t), Options{})
	release := occupy(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- db.Update(ctx, insert("a")) }()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("Update = %v", err)
	}
	release()
	if len(values(t, db)) != 0 {
		t.Error("a cancelled update wrote")
	}
}

func TestCancelAfterTheTurnDoesNotStop(t *testing.T) {
	db := open(t, temp(t), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := db.Update(ctx, func(tx *Tx) error {
		cancel()
		return insert("a")(tx)
	})
	if err != nil || !values(t, db)["a"] {
		t.Fatalf("err %v, rows %v", err, values(t, db))
	}
}

func TestTxEndsWithItsFunction(t *testing.T) {
	db := open(t, temp(t), Options{})
	var leaked *Tx
	err := db.Update(t.Context(), func(tx *Tx) error {
		leaked = tx
		_, err := tx.Query("SELECT v FROM t") // left open on purpose
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaked.Exec("INSERT INTO t(v) VALUES ('a')"); !errors.Is(err, ErrTxDone) {
		t.Errorf("Exec = %v", err)
	}
	if _, err := leaked.Query("SELECT 1"); !errors.Is(err, ErrTxDone) {
		t.Errorf("Query = %v", err)
	}
	var n int
	if err := leaked.QueryRow("SELECT 1").Scan(&n); !errors.Is(err, ErrTxDone) {
		t.Errorf("QueryRow = %v", err)
	}
	err = db.Update(t.Context(), func(*Tx) error { // nor does it join another's
		if _, err := leaked.Exec("INSERT INTO t(v) VALUES ('a')"); !errors.Is(err, ErrTxDone) {
			t.Errorf("Exec in another transaction = %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLostTransaction ends the transaction under the group's feet, as SQLite
// does when a disk is full, and goes on writing as if nothing had happened.
func TestLostTransaction(t *testing.T) {
	db := open(t, temp(t), Options{})
	if err := db.Update(t.Context(), insert("before")); err != nil {
		t.Fatal(err)
	}
	err := db.Update(t.Context(), func(tx *Tx) error {
		if err := insert("lost")(tx); err != nil {
			return err
		}
		if err := db.writer.exec("ROLLBACK"); err != nil {
			return err
		}
		if err := insert("outside")(tx); !errors.Is(err, ErrTxDone) {
			t.Errorf("a write outside the transaction: %v", err)
		}
		return nil
	})
	if !errors.Is(err, ErrCommit) {
		t.Errorf("Update = %v, want ErrCommit", err)
	}
	if err := db.Update(t.Context(), insert("after")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("next Update = %v, want ErrReadOnly", err)
	}
	if !errors.Is(db.Err(), ErrReadOnly) {
		t.Errorf("Err = %v", db.Err())
	}
	if got := values(t, db); len(got) != 1 || !got["before"] {
		t.Errorf("rows %v", got)
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db := open(b, temp(b), Options{})
			work := make(chan int)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for i := range work {
						if err := db.Update(b.Context(), insert(strconv.Itoa(i))); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				work <- i
			}
			close(work)
			wg.Wait()
			s := db.Stats()
			b.ReportMetric(float64(s.Updates)/float64(s.Commits), "updates/commit")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
		})
	}
}

func BenchmarkView(b *testing.B) {
	db := open(b, temp(b), Options{})
	if err := db.Update(b.Context(), insert("a")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		err := db.View(b.Context(), func(tx *Tx) error {
			var id int
			return tx.QueryRow("SELECT id FROM t WHERE v = ?", "a").Scan(&id)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
