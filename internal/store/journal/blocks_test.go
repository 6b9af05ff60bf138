package journal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

func entriesOf(t *testing.T, k *storetest.DB, f journal.Filter) (list []journal.Entry) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) (err error) {
		list, err = tx.Entries(f)
		return err
	})
	return list
}

// checkThreads compares what is found by thread and by session with what the whole
// journal says.
func checkThreads(t *testing.T, k *storetest.DB, threads ...string) {
	t.Helper()
	all := entriesOf(t, k, journal.Filter{})
	for _, thread := range threads {
		of := slices.DeleteFunc(slices.Clone(all), func(e journal.Entry) bool { return e.Thread != thread })
		below := slices.DeleteFunc(slices.Clone(all), func(e journal.Entry) bool {
			return e.Thread != thread && !strings.HasPrefix(e.Thread, thread+".")
		})
		if diff := cmp.Diff(of, slices.Clip(entriesOf(t, k, journal.Filter{Thread: thread}))); diff != "" && len(of) > 0 {
			t.Fatalf("of %s:\n%s", thread, diff)
		}
		if diff := cmp.Diff(below, entriesOf(t, k, journal.Filter{Session: thread})); diff != "" && len(below) > 0 {
			t.Fatalf("of %s and below:\n%s", thread, diff)
		}
		last := below[max(0, len(below)-3):]
		if diff := cmp.Diff(last, entriesOf(t, k, journal.Filter{Session: thread, Limit: 3, Newest: true})); diff != "" && len(last) > 0 {
			t.Fatalf("the newest of %s:\n%s", thread, diff)
		}
	}
}

// TestJournalByThread: the entries of a thread are found whether or not their block
// is full, and after some of them were deleted.
func TestJournalByThread(t *testing.T) {
	k := storetest.Open(t)
	threads := []string{"root", "root.a", "root.a.b", "root.ab", "root.c[x.y]"}
	n := 0
	grow := func(to int) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) error {
			for ; n < to; n++ {
				r := journal.RetainForever
				if n%3 == 0 {
					r = journal.RetainDays(1)
				}
				e := storetest.Entry(threads[n*n%len(threads)], r)
				e.PayloadHash = storetest.Digest("payload")
				if err := tx.EnsureThread(e.Thread, "p"); err != nil {
					return err
				}
				if _, err := tx.AppendJournal(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, to := range []int{1, 1023, 1024, 1025, 2048, 2500} {
		grow(to)
		checkThreads(t, k, threads...)
	}
	if got := k.Count(t, "SELECT count(*) FROM journal_threads"); got != 2048 {
		t.Errorf("%d entries in full blocks", got)
	}
	k.Change(t, func(tx *store.Tx) error {
		if n, err := storetest.PruneJournal(tx, storetest.Start.AddDate(0, 0, 2), 10_000); n != 834 || err != nil {
			t.Errorf("pruned %d, %v", n, err)
		}
		return nil
	})
	checkThreads(t, k, threads...)
	if got := k.Count(t, "SELECT count(*) FROM journal_threads WHERE seq NOT IN (SELECT seq FROM journal)"); got != 0 {
		t.Errorf("%d entries that are gone", got)
	}
	k.Reopen(t)
	grow(3200)
	checkThreads(t, k, threads...)
}

// TestJournalNumbersAreGivenOnce: not those of deleted entries either, of which the
// last may be one, and none is left out.
func TestJournalNumbersAreGivenOnce(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error { return tx.CreateThread("root", "p") })
	e := storetest.Entry("root", journal.PruneOnDelivery)
	e.PayloadHash = storetest.Digest("payload")
	next := int64(1)
	for round := range 3 {
		for range 4 {
			k.Change(t, func(tx *store.Tx) error {
				got, err := tx.AppendJournal(e)
				if got.Seq != next {
					t.Errorf("number %d, want %d", got.Seq, next)
				}
				next++
				return err
			})
		}
		k.Change(t, func(tx *store.Tx) error { // the last, one between, and in the end all
			for i := range []int64{2, 3, 4}[round] {
				if err := tx.ConfirmDelivery(next - 1 - i); err != nil {
					return err
				}
			}
			return nil
		})
		k.Reopen(t)
	}
}
