package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// schema is the table that most tests write to.
const schema = `CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER NOT NULL REFERENCES t(id)) STRICT;`

func TestMain(m *testing.M) {
	if mode := os.Getenv("SQLITE_TEST_CHILD"); mode != "" {
		os.Exit(child(mode, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, path string, opt Options) *DB {
	t.Helper()
	if opt.Migrations == nil {
		opt.Migrations = []string{schema}
	}
	db, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func temp(t testing.TB) string { return filepath.Join(t.TempDir(), "x.db") }

func insert(v string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO t(v) VALUES (?)", v)
		return err
	}
}

func values(t testing.TB, db *DB) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	err := db.View(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query("SELECT v FROM t")
		if err != nil {
			return err
		}
		for rows.Next() {
			var v string
			if err := rows.Scan(&v); err != nil {
				return err
			}
			got[v] = true
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOpenSetsPragmas(t *testing.T) {
	db := open(t, temp(t), Options{})
	check := func(tx *Tx, want map[string]string) error {
		for name, w := range want {
			var got string
			if err := tx.QueryRow("PRAGMA " + name).Scan(&got); err != nil {
				return err
			}
			if got != w {
				t.Errorf("%s = %q, want %q", name, got, w)
			}
		}
		return nil
	}
	common := map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "recursive_triggers": "1"}
	if err := db.Update(t.Context(), func(tx *Tx) error { return check(tx, common) }); err != nil {
		t.Fatal(err)
	}
	common["query_only"] = "1"
	if err := db.View(t.Context(), func(tx *Tx) error { return check(tx, common) }); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyRefusesAWeakerPragma(t *testing.T) {
	db := open(t, temp(t), Options{})
	if err := db.writer.exec("PRAGMA synchronous = NORMAL"); err != nil {
		t.Fatal(err)
	}
	err := db.writer.verify(t.Context(), pragmas(false))
	if !errors.Is(err, ErrPragma) || !strings.Contains(err.Error(), "synchronous") {
		t.Fatalf("verify = %v, want ErrPragma for synchronous", err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{ExclusiveLock: true})
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", filepath.Base(path+suffix), info.Mode())
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		opt        Options
		is         error
	}{
		{"empty", "", Options{}, ErrBadPath},
		{"memory", ":memory:", Options{}, ErrBadPath},
		{"memory uri", "file::memory:?cache=shared", Options{}, ErrBadPath},
		{"nul", "a\x00b", Options{}, ErrBadPath},
		{"no folder", filepath.Join(dir, "no", "x.db"), Options{}, fs.ErrNotExist},
		{"a folder", dir, Options{}, nil},
		{"garbage", garbage, Options{}, nil},
		{"read-only of nothing", filepath.Join(dir, "none.db"), Options{ReadOnly: true}, fs.ErrNotExist},
		{"no folder for the lock", filepath.Join(dir, "no", "x.db"), Options{ExclusiveLock: true}, fs.ErrNotExist},
		{"bad migration", filepath.Join(dir, "bad.db"), Options{Migrations: []string{"CREATE TABEL"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db, err := Open(t.Context(), tt.path, tt.opt)
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("err = %v, want %v", err, tt.is)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("a read-only open made a file")
	}
}

func TestPathIsTakenLiterally(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b?mode=memory#c%20.db")
	db := open(t, path, Options{})
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Fatalf("stat = %v, %v", info, err)
	}
}

func TestLockRefusesASecondOpener(t *testing.T) {
	requirements.Covers(t, "AP-14.3.1")
	path := temp(t)
	db := open(t, path, Options{ExclusiveLock: true})
	out, err := runChild(t, "lock", path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("locked by %d", os.Getpid()); !strings.Contains(out, want) {
		t.Fatalf("child said %q, want %q", out, want)
	}
	// The lock is the open file's, so it also holds inside one process.
	var locked *LockedError
	if _, err := Open(t.Context(), path, Options{ExclusiveLock: true}); !errors.As(err, &locked) || !errors.Is(err, ErrLocked) {
		t.Fatalf("second open = %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err = runChild(t, "lock", path); err != nil || !strings.Contains(out, "opened") {
		t.Fatalf("after close the child said %q, %v", out, err)
	}
}

func TestMigrations(t *testing.T) {
	path := temp(t)
	steps := []string{
		"CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1);",
		"ALTER TABLE a ADD COLUMN y TEXT; INSERT INTO a VALUES (2, 'z');",
		"CREATE TABLE b (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1);",
	}
	count := func(n int) (rows int) {
		t.Helper()
		db, err := Open(t.Context(), path, Options{Migrations: steps[:n]})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.View(t.Context(), func(tx *Tx) error { return tx.QueryRow("SELECT count(*) FROM a").Scan(&rows) })
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for i, want := range []int{1, 1, 2, 2} { // each version is opened twice
		if got := count(i/2 + 1); got != want {
			t.Errorf("open %d: %d rows, want %d", i, got, want)
		}
	}
	if _, err := Open(t.Context(), path, Options{Migrations: steps}); err == nil {
		t.Fatal("a script with an error was applied")
	}
	if got := count(2); got != 2 { // the failed script left nothing
		t.Errorf("after a failed script: %d rows", got)
	}
	_, err := Open(t.Context(), path, Options{Migrations: steps[:1]})
	if !errors.Is(err, ErrTooNew) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("older program: %v, want ErrTooNew", err)
	}
}

// TestUnreleased: a file of a version before the first one is refused and left as it
// is, however it is opened; it can be copied, and not be restored.
func TestUnreleased(t *testing.T) {
	opt := Options{Migrations: []string{schema, "SELECT 1"}, First: 1000}
	for _, tt := range []struct {
		version int
		is      error
	}{{1, ErrUnreleased}, {999, ErrUnreleased}, {1000, nil}, {1001, nil}, {1002, ErrTooNew}, {-1, ErrUnreleased}} {
		path, dest := temp(t), temp(t)
		file := open(t, path, Options{ExclusiveLock: true})
		must(t, file.Update(t.Context(), insert("a")))
		must(t, file.writer.exec(fmt.Sprintf("PRAGMA user_version = %d", tt.version)))
		must(t, file.Close())
		before, err := os.ReadFile(path)
		must(t, err)

		old := opt
		old.ReadOnly, old.Old = true, true
		if db, err := Open(t.Context(), path, old); tt.is == ErrTooNew {
			if !errors.Is(err, ErrTooNew) {
				t.Errorf("version %d, for a copy: %v", tt.version, err)
			}
		} else {
			must(t, err)
			must(t, db.Backup(t.Context(), dest))
			must(t, db.Close())
			if _, err := Restore(t.Context(), temp(t), dest, opt); !errors.Is(err, tt.is) {
				t.Errorf("version %d, restored: %v, want %v", tt.version, err, tt.is)
			}
		}
		for _, readOnly := range []bool{true, false} {
			o := opt
			o.ReadOnly = readOnly
			db, err := Open(t.Context(), path, o)
			want := tt.is
			if tt.version == 1000 && readOnly {
				want = ErrTooOld
			}
			if !errors.Is(err, want) {
				t.Errorf("version %d, read-only %v: %v, want %v", tt.version, readOnly, err, want)
			}
			if err == nil {
				must(t, db.Close())
			}
		}
		after, err := os.ReadFile(path)
		must(t, err)
		if tt.is != nil && !bytes.Equal(before, after) {
			t.Errorf("version %d: the file was changed", tt.version)
		}
	}
}

// TestFirst: a new file gets the number of the first script, and the next one more.
func TestFirst(t *testing.T) {
	path := temp(t)
	for n := range 2 {
		db := open(t, path, Options{Migrations: []string{schema, "INSERT INTO t VALUES (1, 'once')"}[:n+1], First: 1000})
		must(t, db.View(t.Context(), func(tx *Tx) error {
			var version, rows int
			err := tx.QueryRow("SELECT user_version, (SELECT count(*) FROM t) FROM pragma_user_version").Scan(&version, &rows)
			if version != 1000+n || rows != n {
				t.Errorf("%d scripts: version %d, %d rows", n+1, version, rows)
			}
			return err
		}))
		must(t, db.Close())
	}
}

// TestMigrationIsTold: before it begins and at the level that is shown unless
// asked otherwise, but not of a new file.
func TestMigrationIsTold(t *testing.T) {
	path := temp(t)
	steps := []string{schema, "SELECT 1", "SELECT 1", "SELECT 1 FROM nothing"}
	told := func(n int) string {
		t.Helper()
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if db, err := Open(t.Context(), path, Options{Migrations: steps[:n], Logger: log}); err == nil {
			db.Close()
		}
		return said.String()
	}
	for i, want := range []struct {
		steps int
		line  string
	}{{2, ""}, {2, ""}, {3, "version=3 of=3"}, {3, ""}, {4, "version=4 of=4"}, {4, "version=4 of=4"}} { // the last one fails
		got := told(want.steps)
		if want.line == "" && got != "" || !strings.Contains(got, want.line) {
			t.Errorf("open %d, %d steps: %q, want %q", i, want.steps, got, want.line)
		}
	}
}

func TestReadOnly(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{ExclusiveLock: true})
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	ro := open(t, path, Options{ReadOnly: true, ExclusiveLock: true}) // beside the lock's holder
	if !values(t, ro)["a"] {
		t.Error("committed row is not seen")
	}
	if err := ro.Update(t.Context(), insert("b")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Update = %v, want ErrReadOnly", err)
	}
	if err := ro.View(t.Context(), insert("b")); err == nil {
		t.Error("a view wrote")
	}
	if err := db.View(t.Context(), insert("b")); err == nil {
		t.Error("a view of a writable database wrote")
	}
	for _, tt := range []struct {
		migrations []string
		kind       error
		want       string
	}{{[]string{schema, "SELECT 1"}, ErrTooOld, "version 1 of 2"}, {[]string{}, ErrTooNew, "version 1 and"}} {
		_, err := Open(t.Context(), path, Options{ReadOnly: true, Migrations: tt.migrations})
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d migrations: %v, want %q of %q", len(tt.migrations), err, tt.want, tt.kind)
		}
	}
}

func TestViewSeesOneState(t *testing.T) {
	db := open(t, temp(t), Options{})
	err := db.View(t.Context(), func(tx *Tx) error {
		var before, after int
		if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&before); err != nil {
			return err
		}
		if err := db.Update(t.Context(), insert("a")); err != nil {
			return err
		}
		if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&after); err != nil {
			return err
		}
		if before != after {
			t.Errorf("the view went from %d to %d rows", before, after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !values(t, db)["a"] {
		t.Error("the next view does not see the row")
	}
}

func TestViewContext(t *testing.T) {
	db := open(t, temp(t), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := db.View(ctx, func(tx *Tx) error {
		cancel()
		var n int
		return tx.QueryRow("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT count(*) FROM c").Scan(&n)
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("endless query = %v", err)
	}
	if err := db.View(ctx, func(*Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("View = %v", err)
	}
	for range 2 * maxReaders { // every reader came back whole
		values(t, db)
	}
}

func TestNestedQueriesShareNoStatement(t *testing.T) {
	db := open(t, temp(t), Options{})
	err := db.Update(t.Context(), func(tx *Tx) error {
		for _, v := range []string{"a", "b", "c"} {
			if err := insert(v)(tx); err != nil {
				return err
			}
		}
		const q = "SELECT v FROM t ORDER BY v"
		outer, err := tx.Query(q)
		if err != nil {
			return err
		}
		var seen []string
		for outer.Next() {
			var v, first string
			if err := outer.Scan(&v); err != nil {
				return err
			}
			if err := tx.QueryRow(q).Scan(&first); err != nil {
				return err
			}
			seen = append(seen, v+first)
		}
		if got := strings.Join(seen, " "); got != "aa ba ca" {
			t.Errorf("saw %q", got)
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConstraintErrors(t *testing.T) {
	db := open(t, temp(t), Options{})
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		query              string
		unique, constraint bool
	}{
		{"INSERT INTO t(v) VALUES ('a')", true, true},
		{"INSERT INTO t(id, v) VALUES (1, 'b')", true, true},
		{"INSERT INTO t(v) VALUES (NULL)", false, true},
		{"INSERT INTO child(t) VALUES (99)", false, true},
		{"INSERT INTO t(v) VALUES (x'00')", false, true}, // STRICT
		{"INSERT INTO nowhere VALUES (1)", false, false},
	}
	for _, tt := range tests {
		err := db.Update(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec(tt.query)
			return fmt.Errorf("wrapped: %w", err)
		})
		if IsUnique(err) != tt.unique || IsConstraint(err) != tt.constraint {
			t.Errorf("%s: unique %v, constraint %v: %v", tt.query, IsUnique(err), IsConstraint(err), err)
		}
	}
	if IsUnique(nil) || IsUnique(sql.ErrNoRows) || IsConstraint(sql.ErrNoRows) {
		t.Error("an error of another kind counts as a constraint")
	}
}

func TestBackup(t *testing.T) {
	db := open(t, temp(t), Options{})
	if err := db.Update(t.Context(), insert("a")); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "copy.db")
	err := db.View(t.Context(), func(*Tx) error { // a busy database can be copied
		return db.Backup(t.Context(), dest)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), insert("b")); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(t.Context(), dest); !errors.Is(err, fs.ErrExist) {
		t.Errorf("backup over a file = %v, want ErrExist", err)
	}
	if err := db.Backup(t.Context(), ""); !errors.Is(err, ErrBadPath) {
		t.Errorf("backup to nowhere = %v", err)
	}
	if err := db.Backup(t.Context(), filepath.Join(filepath.Dir(dest), "no", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("backup to a missing folder = %v", err)
	}

	// A file that is called as one on the way could be is somebody's.
	other := filepath.Join(filepath.Dir(dest), "other.db")
	if err := os.WriteFile(other+".partial", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(t.Context(), other); err != nil {
		t.Errorf("backup beside somebody's file: %v", err)
	}
	if doc, err := os.ReadFile(other + ".partial"); err != nil || string(doc) != "mine" {
		t.Errorf("somebody's file is %q (%v)", doc, err)
	}
	if err := os.Remove(other + ".partial"); err != nil {
		t.Fatal(err)
	}

	got := values(t, open(t, dest, Options{})) // the schema version came along
	if !got["a"] || got["b"] {
		t.Errorf("the copy holds %v", got)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dest), "*.partial*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCheckFileFindsDamage(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	for i := range 200 {
		if err := db.Update(t.Context(), insert(fmt.Sprintf("%04d%s", i, strings.Repeat("x", 100)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(data), "0150xxx") // one stored value, not its index entry too
	data[i] = '9'
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkFile(t.Context(), path); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("checkFile = %v, want ErrCorrupt", err)
	}
}

func TestClosed(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is left beside the file: %v", err)
	}
	if err := db.Update(t.Context(), insert("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("Update = %v", err)
	}
	if err := db.View(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("View = %v", err)
	}
}
