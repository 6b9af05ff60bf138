package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrCorrupt is returned by Backup when the integrity check finds
// damage.
var ErrCorrupt = errors.New("integrity check failed")

// Backup writes a consistent copy of the database to dest while it is in use.
// The copy is complete, checked and durable before dest appears; an existing
// dest is never replaced.
func (db *DB) Backup(ctx context.Context, dest string) error {
	dest, err := checkPath(dest)
	if err != nil {
		return err
	}
	part := dest + ".partial"
	defer os.Remove(part)
	if err := db.copyTo(ctx, part); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := checkFile(ctx, part); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	// Link refuses an existing name, where a rename would replace it.
	if err := os.Link(part, dest); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncDir(filepath.Dir(dest))
}

// copyTo uses VACUUM INTO: one read transaction, so writers go on and the copy
// is one moment, without the restarts of the page-wise backup.
func (db *DB) copyTo(ctx context.Context, part string) error {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	pool, err := sql.Open("sqlite3", fmt.Sprintf("%s?mode=ro&_busy_timeout=%d", uri(db.path), busyTimeoutMs))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.ExecContext(ctx, "VACUUM INTO ?", part); err != nil {
		return err
	}
	return f.Sync()
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
