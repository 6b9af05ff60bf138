package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRestore: a killed database, with its log beside it, is replaced by a
// backup whole, and is itself kept.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "n.db"), filepath.Join(dir, "b.db")
	opt := Options{Migrations: []string{"CREATE TABLE t(n INTEGER) STRICT"}, ExclusiveLock: true}
	open := func() *DB {
		t.Helper()
		db, err := Open(t.Context(), path, opt)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	insert := func(db *DB, n int) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *Tx) error { _, err := tx.Exec("INSERT INTO t VALUES (?)", n); return err }); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(db *DB) (n int) {
		t.Helper()
		if err := db.View(t.Context(), func(tx *Tx) error { return tx.QueryRow("SELECT coalesce(sum(n), 0) FROM t").Scan(&n) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	db := open()
	insert(db, 1)
	if err := db.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	insert(db, 2)
	var locked *LockedError
	if _, err := Restore(t.Context(), path, backup, opt); !errors.As(err, &locked) {
		t.Fatalf("restored under an open database: %v", err)
	}
	// As after a kill: database and log as they are on disk at this moment.
	killed := map[string][]byte{}
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		killed[suffix] = raw
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for suffix, raw := range killed {
		if err := os.WriteFile(path+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := Restore(t.Context(), path, backup, opt)
	if err != nil {
		t.Fatal(err)
	}
	ro, err := Open(t.Context(), path, Options{Migrations: opt.Migrations, ReadOnly: true}) // a command that only looks, before the node starts
	if err != nil {
		t.Fatal(err)
	}
	if err := ro.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	if got := sum(db); got != 1 {
		t.Errorf("restored sum %d", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(kept, "n.db")
	db = open()
	defer db.Close()
	if got := sum(db); got != 3 {
		t.Errorf("kept sum %d", got)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	path, bad := filepath.Join(dir, "n.db"), filepath.Join(dir, "bad.db")
	if err := os.WriteFile(bad, []byte("not a database, but long enough to look at"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{pipe, dir, "/dev/zero"} {
		if _, err := Restore(t.Context(), path, from, Options{}); !errors.Is(err, ErrNoFile) {
			t.Errorf("from %s: %v", from, err)
		}
	}
	for _, from := range []string{bad, filepath.Join(dir, "missing.db"), ""} {
		if _, err := Restore(t.Context(), path, from, Options{}); err == nil {
			t.Errorf("restored from %q", from)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("something was put in place")
	}
}

// TestRestoreRefusesAnotherSchema: what runs by itself, or answers in the place of a
// table, does not come in with a backup.
func TestRestoreRefusesAnotherSchema(t *testing.T) {
	opt := Options{Migrations: []string{"CREATE TABLE t(n INTEGER) STRICT", "CREATE TABLE u(n INTEGER) STRICT"}}
	for name, change := range map[string]string{
		"trigger":      "CREATE TRIGGER evil BEFORE INSERT ON t BEGIN DELETE FROM u; END",
		"view":         "DROP TABLE t; CREATE VIEW t AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n < 0",
		"table more":   "CREATE TABLE v(n INTEGER)",
		"table less":   "DROP TABLE u",
		"index":        "CREATE UNIQUE INDEX one ON t(n)",
		"version less": "PRAGMA user_version = 1",
	} {
		dir := t.TempDir()
		from := filepath.Join(dir, "b.db")
		db, err := Open(t.Context(), from, opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		pool, err := sql.Open("sqlite3", uri(from))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.ExecContext(t.Context(), change+"; PRAGMA journal_mode = DELETE"); err != nil {
			t.Fatal(err)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}

		path := filepath.Join(dir, "n.db")
		if _, err := Restore(t.Context(), path, from, opt, "t"); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: something was put in place", name)
		}
	}
}

// TestRestoreRefusesALiveFile: what cp took from under a database may lack what its log has.
func TestRestoreRefusesALiveFile(t *testing.T) {
	dir := t.TempDir()
	path, copied, backup := filepath.Join(dir, "n.db"), filepath.Join(dir, "copied.db"), filepath.Join(dir, "b.db")
	opt := Options{Migrations: []string{"CREATE TABLE t(n INTEGER) STRICT"}}
	db, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := copyFile(copied, path); err != nil {
		t.Fatal(err)
	}
	if err := Copy(t.Context(), path, backup); err != nil {
		t.Fatal(err)
	}

	if _, err := Restore(t.Context(), filepath.Join(dir, "m.db"), copied, opt); !errors.Is(err, ErrLiveFile) && !IsDamaged(err) {
		t.Errorf("%v", err)
	}
	if _, err := Restore(t.Context(), filepath.Join(dir, "m.db"), backup, opt); err != nil {
		t.Error(err)
	}
}
