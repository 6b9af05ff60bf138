package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// TestMigrationsOfManyRows: what docs/develop/rationale.md allows a script, in one
// transaction over a million rows, takes seconds of processor time and writes a fraction
// of the table; a rewrite of each row, which it does not allow, writes all of it.
func TestMigrationsOfManyRows(t *testing.T) {
	const width = 400 // bytes of a row
	rows := testclass.Size(t, 100_000, 1_000_000, "migrations")
	path := filepath.Join(t.TempDir(), "large.db")
	first := fmt.Sprintf(`CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, at INTEGER NOT NULL, document BLOB NOT NULL) STRICT;
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO jobs SELECT i, i %% 12, i * 7919 %% 1000003, zeroblob(%d) FROM n`, rows, width)
	scripts := []string{first}
	apply := func(what string, more ...string) (took time.Duration, written int64) {
		t.Helper()
		scripts = append(scripts, more...)
		before := processorTime(t)
		db, err := Open(t.Context(), path, Options{Migrations: scripts})
		if err != nil {
			t.Fatal(err)
		}
		took = processorTime(t) - before
		if st, err := os.Stat(path + "-wal"); err == nil {
			written = st.Size()
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v of processor time, %d MiB written", what, took.Round(time.Millisecond), written>>20)
		return took, written
	}
	apply("the table")

	table := int64(rows * width)
	if took, written := apply("a column", `ALTER TABLE jobs ADD COLUMN owed INTEGER NOT NULL DEFAULT 0`); written > 1<<20 || took > time.Second {
		t.Errorf("a column takes %v and writes %d bytes", took, written)
	}
	if took, written := apply("an index", `CREATE INDEX jobs_state ON jobs (state, at)`); written > table/4 || took > 30*time.Second {
		t.Errorf("an index takes %v and writes %d bytes", took, written)
	}
	if took, written := apply("a table of what is open", `CREATE TABLE open_jobs (id INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;
		INSERT INTO open_jobs SELECT id, at FROM jobs WHERE state = 0`); written > table/4 || took > 30*time.Second {
		t.Errorf("a table of some rows takes %v and writes %d bytes", took, written)
	}
	if _, written := apply("each row anew", `UPDATE jobs SET owed = at`); written < table {
		t.Errorf("a rewrite of each row writes %d bytes: the rule is stricter than it need be", written)
	}
}
