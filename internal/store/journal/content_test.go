package journal_test

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestAHashKeepsNoContent: a payload stays as long as an entry that came with it,
// not as long as one that only has its hash.
func TestAHashKeepsNoContent(t *testing.T) {
	k := storetest.Open(t)
	payload := []byte("payload")
	k.Change(t, func(tx *store.Tx) error {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		e := storetest.Entry("root", journal.RetainForever)
		e.PayloadHash = hashing.Bytes(payload)
		if _, err := tx.AppendJournal(e); err != nil {
			return err
		}
		_, err := tx.AppendJournalPayload(storetest.Entry("root", journal.RetainDays(1)), payload)
		return err
	})
	k.Change(t, func(tx *store.Tx) error {
		if _, err := tx.Content(hashing.Bytes(payload)); err != nil {
			t.Errorf("the payload of an entry: %v", err)
		}
		n, err := tx.PruneJournal(storetest.Start.AddDate(0, 0, 2), 100)
		if n != 1 {
			t.Errorf("%d entries were pruned", n)
		}
		return err
	})
	k.Read(t, func(tx *store.Tx) error {
		if _, err := tx.Content(hashing.Bytes(payload)); !errors.Is(err, row.ErrNotFound) {
			t.Errorf("the payload of a pruned entry: %v", err)
		}
		return nil
	})
}
