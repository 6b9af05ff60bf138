package sqlite

import (
	"context"
	"fmt"
	"time"
)

// watchInterval is how often a watched database is asked whether it has changed. The
// answer is in memory that its processes share, so it costs next to nothing.
const watchInterval = 50 * time.Millisecond

// Watch calls look at once, and again after each change that any process has committed,
// until look is done or fails, or ctx ends. Changes that come together are one.
func (db *DB) Watch(ctx context.Context, look func(context.Context) (done bool, err error)) error {
	pool, err := db.pool(true)
	if err != nil {
		return err
	}
	defer pool.Close()

	c, err := db.dial(ctx, pool, true)
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }()

	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	for seen := int64(-1); ; {
		version, err := c.changes(ctx)
		if err != nil {
			return err
		}
		if version != seen {
			if done, err := look(ctx); done || err != nil {
				return err
			}
			seen = version
		}

		select {
		case <-tick.C:
		case <-db.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changes is a number that differs after each commit of another connection.
func (c *conn) changes(ctx context.Context) (version int64, err error) {
	if err := c.sql.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return 0, fmt.Errorf("look for changes: %w", err)
	}
	return version, nil
}
