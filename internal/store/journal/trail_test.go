package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestLastAuditLines: the end of the trail comes as it was written, of one subject or of
// all.
func TestLastAuditLines(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		for i := range 6 {
			if err := tx.Audit(fmt.Sprint("event", i), []string{"a", "b"}[i%2], nil); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		subject string
		limit   int
		want    []string
	}{
		{"", 2, []string{"event4", "event5"}},
		{"a", 2, []string{"event2", "event4"}},
		{"a", 9, []string{"event0", "event2", "event4"}},
		{"c", 9, nil},
		{"", 0, nil},
	} {
		err := k.View(t.Context(), func(tx *store.Tx) error {
			lines, err := tx.LastAuditLines(c.subject, c.limit)
			var got []string
			for _, l := range lines {
				got = append(got, l.EventType)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the last %d of %q are %v, want %v", c.limit, c.subject, got, c.want)
			}
			return err
		})
		storetest.Must(t, err)
	}
}

// TestUnfinishedThreads: what a run left open is found after a kill, those below first, so
// that each can be ended in its turn.
func TestUnfinishedThreads(t *testing.T) {
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		for _, id := range []string{"a.b.c", "d"} {
			if err := tx.EnsureThread(id, "p"); err != nil {
				return err
			}
		}
		return tx.EndThread("d", journal.ThreadCompleted, nil)
	})
	k.Reopen(t)

	var open []string
	k.Change(t, func(tx *store.Tx) (err error) {
		if open, err = tx.UnfinishedThreads(); err != nil {
			return err
		}
		for _, id := range open {
			if err := tx.EndThread(id, journal.ThreadFailed, nil); err != nil {
				return err
			}
		}
		left, err := tx.UnfinishedThreads()
		if len(left) != 0 {
			t.Errorf("left open: %v", left)
		}
		return err
	})
	if !slices.Equal(open, []string{"a.b.c", "a.b", "a"}) {
		t.Errorf("open are %v", open)
	}
}
