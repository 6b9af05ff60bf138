package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// migrate applies the scripts that the file lacks. Each runs in one transaction with
// its version number, so a crash leaves no script half applied.
func (db *DB) migrate(opt Options) error {
	fresh := false // a new file needs no announcement, because it takes no time
	announce := func(version int) {
		if fresh = fresh || version == opt.first(); !fresh {
			db.log.Warn("database is being migrated: a large one takes minutes", "path", db.path, "version", version, "of", opt.last())
		}
	}

	for {
		done, err := db.migrateNext(opt, announce)
		if err != nil || done {
			return err
		}
	}
}

// migrateNext announces and applies the next script. It reads the version inside a
// write transaction, so that two processes that open a new file at once do not both
// apply the first script.
func (db *DB) migrateNext(opt Options, announce func(version int)) (done bool, err error) {
	c := db.writer
	if err := db.begin(context.Background()); err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	defer func() {
		if c.inTx() {
			_ = c.exec("ROLLBACK") // err is the error that counts
		}
	}()

	version, err := c.version(context.Background())
	if err != nil {
		return false, err
	}
	if err := opt.check(db.path, version); err == nil || !errors.Is(err, ErrTooOld) {
		return err == nil, err
	}

	next := max(version+1, opt.first())
	announce(next)
	stop := db.reportProgress(next, opt.last())
	err = c.exec(opt.Migrations[next-opt.first()])
	stop()
	if err != nil {
		return false, fmt.Errorf("migrate %s to version %d: %w", db.path, next, err)
	}
	if err := c.exec(fmt.Sprintf("PRAGMA user_version = %d", next)); err != nil {
		return false, fmt.Errorf("migrate: write version: %w", err)
	}
	if err := c.exec("COMMIT"); err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}

	db.log.Info("database migrated", "path", db.path, "version", next)
	return false, nil
}

// progressInterval is the time between two reports of a migration.
const progressInterval = 10 * time.Second

// reportProgress logs, at each interval until stop is called, how long a script has
// been running and how much it has written. That number grows as long as the script
// makes progress.
func (db *DB) reportProgress(version, of int) (stop func()) {
	began, done := time.Now(), make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()

		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			written := int64(0)
			if st, err := os.Stat(db.path + "-wal"); err == nil {
				written = st.Size()
			}
			db.log.Warn("database is still being migrated", "path", db.path, "version", version, "of", of,
				"for", time.Since(began).Round(time.Second).String(), "written_bytes", written)
		}
	})
	return func() {
		close(done)
		reporter.Wait()
	}
}

func (c *conn) version(ctx context.Context) (int, error) {
	var v int
	if err := c.sql.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return v, nil
}

func (opt Options) first() int { return max(opt.First, 1) }

// last is the version of a file that is up to date.
func (opt Options) last() int {
	if len(opt.Migrations) == 0 {
		return 0
	}
	return opt.first() + len(opt.Migrations) - 1
}

// check compares the version of a file with the migrations. After ErrTooOld, and no
// other error, the migrations can bring the file up to date.
func (opt Options) check(path string, version int) error {
	switch {
	case version > opt.last():
		return fmt.Errorf("%w: %s has schema version %d and this program knows %d", ErrTooNew, path, version, opt.last())
	case version != 0 && version < opt.first():
		return fmt.Errorf("%w: %s has schema version %d, and the first is %d", ErrUnreleased, path, version, opt.first())
	case version < opt.last():
		return fmt.Errorf("%w: %s has schema version %d of %d", ErrTooOld, path, version, opt.last())
	}
	return nil
}

// checkVersion takes the place of migrate in a read-only database.
func (db *DB) checkVersion(ctx context.Context, opt Options) error {
	c := <-db.readers
	defer func() { db.readers <- c }()
	version, err := c.version(ctx)
	if err != nil {
		return err
	}
	if err = opt.check(db.path, version); version == 0 && errors.Is(err, ErrTooOld) {
		err = fmt.Errorf("%w: %w", ErrEmpty, err)
	}
	return err
}
