package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// TestAnOldJournalKeepsItsContents: of entries from before it was written down
// which came with their payloads, each keeps what is there.
func TestAnOldJournalKeepsItsContents(t *testing.T) {
	k := &testKernel{dir: filepath.Join(t.TempDir(), "node"), now: start}
	must(t, os.MkdirAll(k.dir, 0o700))
	old, err := sqlite.Open(t.Context(), filepath.Join(k.dir, FileName), sqlite.Options{Migrations: migrations()[:keptStep(t)]})
	must(t, err)
	kept := []byte("payload")
	d := hashing.Bytes(kept)
	must(t, old.Update(t.Context(), func(tx *sqlite.Tx) error {
		for _, stmt := range []string{
			"INSERT INTO threads(thread_id, profile, created_ms) VALUES ('root', 'p', 1)",
			"INSERT INTO thread_states(thread_id, state, at_ms) VALUES ('root', 'Active', 1)",
		} {
			if _, err := tx.Exec(stmt); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT INTO contents(digest, bytes) VALUES (?, ?)", d[:], kept); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO journal(at_ms, thread_id, direction, handler, payload_tag, payload_hash, retention)
			VALUES (1, 'root', 'Outbound', 'h', 't', ?, 'retain_forever')`, d[:])
		return err
	}))
	must(t, old.Close())
	k.reopen(t)
	t.Cleanup(func() { must(t, k.Close()) })
	k.update(t, func(tx *Tx) error {
		if err := tx.dropContent(d); err != nil {
			return err
		}
		_, err := tx.Content(d)
		return err
	})
	if err := k.Update(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec("UPDATE journal SET keeps = 0")
		return err
	}); !sqlite.IsConstraint(err) {
		t.Errorf("an entry was altered: %v", err)
	}
}

// keptStep is the number of steps before the one that is tested.
func keptStep(t *testing.T) int {
	t.Helper()
	for i, step := range migrations() {
		if step == keptSQL {
			return i
		}
	}
	t.Fatal("there is no such step")
	return 0
}

// TestAHashKeepsNoContent: a payload stays as long as an entry that came with it,
// not as long as one that only has its hash.
func TestAHashKeepsNoContent(t *testing.T) {
	k := open(t)
	payload := []byte("payload")
	k.update(t, func(tx *Tx) error {
		if err := tx.CreateThread("root", "p"); err != nil {
			return err
		}
		e := entry("root", RetainForever)
		e.PayloadHash = hashing.Bytes(payload)
		if _, err := tx.AppendJournal(e); err != nil {
			return err
		}
		_, err := tx.AppendJournalPayload(entry("root", RetainDays(1)), payload)
		return err
	})
	k.update(t, func(tx *Tx) error {
		if _, err := tx.Content(hashing.Bytes(payload)); err != nil {
			t.Errorf("the payload of an entry: %v", err)
		}
		n, err := tx.PruneJournal(start.AddDate(0, 0, 2), 100)
		if n != 1 {
			t.Errorf("%d entries were pruned", n)
		}
		return err
	})
	k.view(t, func(tx *Tx) error {
		if _, err := tx.Content(hashing.Bytes(payload)); !errors.Is(err, ErrNotFound) {
			t.Errorf("the payload of a pruned entry: %v", err)
		}
		return nil
	})
}
