package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// TestUnreleasedDatabase: one that a program from before the first release made is
// refused and left as it is, and can be copied.
func TestUnreleasedDatabase(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, store.FileName)
	steps := make([]string, 38)
	steps[0] = "CREATE TABLE jobs(request_id TEXT)"
	db, err := sqlite.Open(t.Context(), file, sqlite.Options{Migrations: steps})
	storetest.Must(t, err)
	storetest.Must(t, db.Close())
	before, err := os.ReadFile(file)
	storetest.Must(t, err)

	for _, readOnly := range []bool{false, true} {
		if _, err := store.Open(t.Context(), dir, store.Options{ReadOnly: readOnly}); !errors.Is(err, sqlite.ErrUnreleased) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	copied := filepath.Join(dir, "copy.db")
	k, err := store.Open(t.Context(), dir, store.Options{ReadOnly: true, Old: true})
	storetest.Must(t, err)
	storetest.Must(t, k.Backup(t.Context(), copied))
	storetest.Must(t, k.Close())
	if _, err := store.Restore(t.Context(), t.TempDir(), copied, store.Provider); !errors.Is(err, sqlite.ErrUnreleased) {
		t.Errorf("restored: %v", err)
	}

	after, err := os.ReadFile(file)
	storetest.Must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}
