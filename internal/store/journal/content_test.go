package journal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
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
		n, err := storetest.PruneJournal(tx, storetest.Start.AddDate(0, 0, 2), 100)
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

// numbered is content of a size, no piece of which is like another.
func numbered(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i / 1000)
	}
	return data
}

// TestLargeContents: a content of any size is read as it was stored; its deletion is over
// for its readers at once, and takes a few pieces at a time; one that is stored again
// meanwhile is whole.
func TestLargeContents(t *testing.T) {
	const piece = 256 << 10
	k := storetest.Open(t)
	add := func(data []byte) (d hashing.Digest) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) (err error) {
			d, err = tx.AddContent(data)
			return err
		})
		return d
	}
	has := func(d hashing.Digest, want []byte) {
		t.Helper()
		k.Read(t, func(tx *store.Tx) error {
			got, err := tx.Content(d)
			if !bytes.Equal(got, want) || want == nil && !errors.Is(err, row.ErrNotFound) {
				t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
			}
			return nil
		})
	}
	drop := func(d hashing.Digest) { k.Change(t, func(tx *store.Tx) error { return tx.DropContent(d) }) }
	dropPieces := func(want int) {
		t.Helper()
		k.Change(t, func(tx *store.Tx) error {
			if n, err := tx.DropPieces(3); n != want || err != nil {
				t.Errorf("%d pieces are deleted, want %d: %v", n, want, err)
			}
			return nil
		})
	}

	for _, size := range []int{0, 1, piece - 1, piece, piece + 1, 3 * piece, 3*piece + 1} {
		data := numbered(size)
		d := add(data)
		has(d, data)
		drop(d)
		has(d, nil)
		for range 3 {
			k.Change(t, func(tx *store.Tx) error {
				_, err := tx.DropPieces(3)
				return err
			})
		}
	}
	if n := k.Count(t, "SELECT (SELECT count(*) FROM content_pieces) + (SELECT count(*) FROM content_rests)"); n != 0 {
		t.Errorf("%d pieces are left", n)
	}

	data := numbered(9 * piece)
	d := add(data)
	dropPieces(0) // of one that is here nothing goes
	drop(d)
	dropPieces(3)
	has(add(data), data)
	dropPieces(0)
	has(d, data)
	for _, query := range []string{"DELETE FROM content_pieces", "UPDATE content_pieces SET n = n + 10"} {
		if err := k.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(query); return err }); !sqlite.IsConstraint(err) {
			t.Errorf("%s: %v", query, err)
		}
	}
	drop(d)
	for _, n := range []int{3, 3, 2, 0} {
		dropPieces(n)
	}
	if n := k.Count(t, "SELECT count(*) FROM content_pieces"); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}
