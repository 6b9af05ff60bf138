package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestNothingAfterACorruptRecordCounts: of a log with a broken commit in its
// middle only what was before it is there. A later one may build on what is lost.
func TestNothingAfterACorruptRecordCounts(t *testing.T) {
	requirements.Covers(t, "APX-10")
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "n.db"), filepath.Join(dir, "copy.db")
	opt := Options{Migrations: []string{"CREATE TABLE t(n INTEGER) STRICT"}}
	db := open(t, path, opt)
	var ends []int64 // of the log, after each commit
	for n := range 3 {
		if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO t VALUES (?)", n); return err }); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, st.Size())
	}
	for _, suffix := range []string{"", "-wal"} { // as after a kill
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix == "-wal" {
			raw[(ends[0]+ends[1])/2] ^= 1
		}
		if err := os.WriteFile(copied+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var left []int
	err := open(t, copied, opt).View(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query("SELECT n FROM t ORDER BY n")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			left = append(left, n)
		}
		return rows.Err()
	})
	if err != nil || !slices.Equal(left, []int{0}) || ends[0] == ends[1] {
		t.Errorf("left %v, %v; the log ended at %v", left, err, ends)
	}
}
