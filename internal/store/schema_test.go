package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// TestUnreleasedDatabase: one that a program from before the first release made is
// refused and left as it is, and can be copied.
func TestUnreleasedDatabase(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	steps := make([]string, 38)
	steps[0] = "CREATE TABLE jobs(request_id TEXT)"
	db, err := sqlite.Open(t.Context(), file, sqlite.Options{Migrations: steps})
	must(t, err)
	must(t, db.Close())
	before, err := os.ReadFile(file)
	must(t, err)

	for _, readOnly := range []bool{false, true} {
		if _, err := Open(t.Context(), dir, Options{ReadOnly: readOnly}); !errors.Is(err, sqlite.ErrUnreleased) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	copied := filepath.Join(dir, "copy.db")
	k, err := Open(t.Context(), dir, Options{ReadOnly: true, Old: true})
	must(t, err)
	must(t, k.Backup(t.Context(), copied))
	must(t, k.Close())
	if _, err := Restore(t.Context(), t.TempDir(), copied, Provider); !errors.Is(err, sqlite.ErrUnreleased) {
		t.Errorf("restored: %v", err)
	}

	after, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}
