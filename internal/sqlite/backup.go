package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrCorrupt is returned when the integrity check finds damage.
var ErrCorrupt = errors.New("integrity check failed")

// ErrForeign is returned by [Restore] for the backup of another database.
var ErrForeign = errors.New("the backup of another database")

// ErrNoFile is returned by Restore for a pipe, a device or a folder.
var ErrNoFile = errors.New("not a regular file")

// ErrSchema is returned by Restore for a file whose tables, triggers and views are not
// those of its version.
var ErrSchema = errors.New("not the schema of version")

// ErrLiveFile is returned for a file that was copied from a database in use: what the
// database's write-ahead log held is not in it.
var ErrLiveFile = errors.New("a copy of a database's file, without what its write-ahead log held")

// Backup writes a consistent copy of the database to dest while it is in use. The copy
// is complete, checked and durable before dest appears. Backup never replaces an
// existing dest.
func (db *DB) Backup(ctx context.Context, dest string) error { return Copy(ctx, db.path, dest) }

// Copy is [DB.Backup] of the file at path, which this process need not have open and whose
// tables may be anybody's.
func Copy(ctx context.Context, path, dest string) error {
	path, err := checkPath(path)
	if err != nil {
		return err
	}
	dest, err = checkPath(dest)
	if err != nil {
		return err
	}

	// A fresh name, because a partial file of that name may belong to another backup.
	f, err := os.CreateTemp(filepath.Dir(dest), filepath.Base(dest)+".*.partial")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	part := f.Name()
	defer os.Remove(part)
	defer f.Close()

	if err := copyTo(ctx, path, f); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := checkFile(ctx, part); err != nil {
		return fmt.Errorf("backup: %w", err)
	}

	// Link refuses an existing name; a rename would replace it.
	if err := os.Link(part, dest); err != nil {
		return fmt.Errorf("backup: %w", err)
	}

	return syncDir(filepath.Dir(dest))
}

// copyTo uses VACUUM INTO, which needs one read transaction: writers can go on and the
// copy is a snapshot. The page-wise backup would restart after every write.
func copyTo(ctx context.Context, path string, part *os.File) error {
	pool, err := sql.Open("sqlite3", fmt.Sprintf("%s?mode=ro&_busy_timeout=%d", uri(path), busyTimeoutMs))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.ExecContext(ctx, "VACUUM INTO ?", part.Name()); err != nil {
		return err
	}
	return part.Sync()
}

// IsDatabase reports that a file begins as SQLite's do, and whether it says that a
// write-ahead log belongs to it, as the file of a database in use does and a copy that
// Backup made does not.
func IsDatabase(path string) (is, live bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer f.Close()

	var head [20]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		return false, false, err
	}
	const walVersion = 2 // of the bytes that say which versions may write and read
	return string(head[:16]) == "SQLite format 3\x00", head[18] == walVersion || head[19] == walVersion, nil
}

// CheckCopy refuses a damaged file, and one that Backup did not make: [ErrLiveFile].
func CheckCopy(ctx context.Context, path string) error {
	if err := checkFile(ctx, path); err != nil {
		return err
	}
	if _, live, err := IsDatabase(path); err != nil || live {
		return cmp.Or(err, ErrLiveFile)
	}
	return nil
}

// Hold keeps a database that nobody has open from being opened, but for reading, until
// release is called. One that is open is a *[LockedError].
func Hold(path string) (release func() error, err error) {
	lock, err := lockFile(path+".lock", false)
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}

// checkFile runs SQLite's integrity check on a file that nobody has open.
func checkFile(ctx context.Context, path string) error {
	pool, err := sql.Open("sqlite3", uri(path)+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer pool.Close()

	var verdict string
	if err := pool.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("integrity check: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, verdict)
	}

	return nil
}

// CheckBackup refuses a file whose version Open would refuse, and one with rows in a
// table that is foreign to this database.
func CheckBackup(ctx context.Context, path string, opt Options, foreign ...string) error {
	pool, err := sql.Open("sqlite3", uri(path)+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer pool.Close()

	var version int
	if err := pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if err := opt.check(path, version); err != nil && !errors.Is(err, ErrTooOld) {
		return err
	}

	if err := checkSchema(ctx, pool, opt, version); err != nil {
		return err
	}

	for _, table := range foreign {
		var rows bool
		if err := pool.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&rows); err != nil {
			return fmt.Errorf("look into it: %w", err)
		}
		if rows {
			return fmt.Errorf("%w: it has %s", ErrForeign, table)
		}
	}

	return nil
}

// checkSchema refuses a file that has other tables, indexes, triggers or views than
// the migrations up to its version make: a trigger would run in every transaction, and a
// view in the place of a table answers whatever its author likes.
func checkSchema(ctx context.Context, backup *sql.DB, opt Options, version int) error {
	model, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return err
	}
	defer model.Close()
	model.SetMaxOpenConns(1) // another connection would be another database
	for _, script := range opt.Migrations[:max(0, version-opt.first()+1)] {
		if _, err := model.ExecContext(ctx, script); err != nil {
			return fmt.Errorf("make a schema to compare with: %w", err)
		}
	}

	want, err := objects(ctx, model)
	if err != nil {
		return err
	}
	got, err := objects(ctx, backup)
	if err != nil {
		return err
	}
	for object := range got {
		if !want[object] {
			return fmt.Errorf("%w %d: it has %s", ErrSchema, version, object)
		}
	}
	for object := range want {
		if !got[object] {
			return fmt.Errorf("%w %d: it lacks %s", ErrSchema, version, object)
		}
	}
	return nil
}

// objects names what a schema has, without what SQLite makes by itself.
func objects(ctx context.Context, pool *sql.DB) (map[string]bool, error) {
	rows, err := pool.QueryContext(ctx, "SELECT format('the %s %q on %q', type, name, tbl_name) FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	defer rows.Close()
	all := map[string]bool{}
	for rows.Next() {
		var object string
		if err := rows.Scan(&object); err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		all[object] = true
	}
	return all, rows.Err()
}

// Restore replaces the database at path by a backup, which it checks first and leaves
// where it is. While a process has the database open, it returns a *[LockedError].
//
// The old database and its write-ahead log move to a new folder, whose name is
// returned ("" if there was no database). The log must go with it, because it would
// corrupt the new file.
//
// A backup is refused if Open with opt would refuse its version, and with [ErrForeign]
// if one of the foreign tables has a row. [ErrSchema] refuses one whose tables, indexes,
// triggers and views are not those of its version, and [ErrLiveFile] one that Backup did
// not make.
func Restore(ctx context.Context, path, backup string, opt Options, foreign ...string) (kept string, err error) {
	if path, err = checkPath(path); err != nil {
		return "", err
	}
	if backup, err = checkPath(backup); err != nil {
		return "", err
	}
	if info, err := os.Stat(backup); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	} else if !info.Mode().IsRegular() {
		// To open a pipe waits for who writes to it, and nothing ends that.
		return "", fmt.Errorf("restore: %s: %w", backup, ErrNoFile)
	}
	if err := CheckCopy(ctx, backup); err != nil {
		return "", fmt.Errorf("restore: %s: %w", backup, err)
	}
	if err := CheckBackup(ctx, backup, opt, foreign...); err != nil {
		return "", fmt.Errorf("restore: %s: %w", backup, err)
	}

	lock, err := lockFile(path+".lock", false)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	part := path + ".partial"
	defer os.Remove(part)

	if err := copyFile(part, backup); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if err := ToWAL(ctx, part); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if kept, err = moveAway(path); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return kept, fmt.Errorf("restore: %w", err)
	}

	return kept, syncDir(filepath.Dir(path))
}

// ToWAL sets the journal mode of a copy, which VACUUM INTO does not copy. A read-only
// Open requires that mode and cannot set it.
func ToWAL(ctx context.Context, path string) error {
	pool, err := sql.Open("sqlite3", uri(path))
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, "PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL")
	return errors.Join(err, pool.Close())
}

// moveAway moves a database and its log into a new folder beside it. The log goes
// first: if only it has moved, the database is older but consistent.
func moveAway(path string) (dir string, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if dir, err = os.MkdirTemp(filepath.Dir(path), "before-restore-"); err != nil {
		return "", err
	}

	for _, suffix := range []string{"-wal", "-shm", ""} {
		err := os.Rename(path+suffix, filepath.Join(dir, filepath.Base(path)+suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dir, err
		}
	}
	return dir, syncDir(dir)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
