package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/mattn/go-sqlite3"
)

const (
	busyTimeoutMs = 5000
	// stmtCache is the number of prepared statements that a connection caches.
	stmtCache = 256
)

// conn is one SQLite connection, used by one goroutine at a time. The driver caches
// its prepared statements and gives each to one user at a time, so a query may run
// again while the rows of an earlier run are still open.
type conn struct {
	sql *sql.Conn
	raw *sqlite3.SQLiteConn // the same connection without the overhead of database/sql

	commands map[string]*sqlite3.SQLiteStmt // see command
}

// pragma is a setting and the value that must be read back. If the driver has no
// parameter for it, a statement sets it.
type pragma struct{ param, name, set, want string }

func pragmas(readOnly bool) []pragma {
	list := []pragma{
		{"_busy_timeout", "busy_timeout", strconv.Itoa(busyTimeoutMs), strconv.Itoa(busyTimeoutMs)},
		{"_foreign_keys", "foreign_keys", "1", "1"},
		{"_synchronous", "synchronous", "FULL", "2"},
		// Without it, INSERT OR REPLACE deletes a row without running its triggers.
		{"_recursive_triggers", "recursive_triggers", "1", "1"},
	}
	if readOnly {
		// A reader cannot set the journal mode, so it only checks it.
		return append(list, pragma{"", "journal_mode", "", "wal"}, pragma{"_query_only", "query_only", "1", "1"})
	}

	return append(
		list,
		pragma{"_journal_mode", "journal_mode", "WAL", "wal"},
		// Each update has a savepoint. In a file, its undo log would double the
		// writes of the commit.
		pragma{"", "temp_store", "MEMORY", "2"},
		// Ids are random, so updates change the same index pages again and again.
		// Rare checkpoints write each page once, and a large cache keeps it.
		pragma{"", "wal_autocheckpoint", "4000", "4000"},
		pragma{"_cache_size", "cache_size", "-32768", "-32768"}, // KiB
	)
}

// dsn builds the driver's URI. It escapes the path, so that '?', '#' and '%' are part
// of the name.
func dsn(path string, readOnly bool) string {
	q := url.Values{}
	q.Set("mode", "rw")

	// The writer needs no mutex of SQLite, because one goroutine at a time uses it and
	// closes its statements. A reader needs one, because the end of its context closes
	// its rows from another goroutine.
	q.Set("_mutex", "no")
	if readOnly {
		q.Set("mode", "ro")
		q.Set("_mutex", "full")
	}

	// A new file can give free pages back, some at a time. Another keeps its form: to say
	// it again would write to the file.
	if st, err := os.Stat(path); !readOnly && (err != nil || st.Size() == 0) {
		q.Set("_auto_vacuum", "incremental")
	}

	q.Set("_txlock", "immediate")
	q.Set("_stmt_cache_size", strconv.Itoa(stmtCache))

	for _, p := range pragmas(readOnly) {
		if p.param != "" {
			q.Set(p.param, p.set)
		}
	}

	return uri(path) + "?" + q.Encode()
}

func uri(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath()
}

// connect opens one connection that release closes.
func (db *DB) connect(ctx context.Context, readOnly bool) (*conn, error) {
	pool, err := db.pool(readOnly)
	if err != nil {
		return nil, err
	}
	db.pools = append(db.pools, pool)
	return db.dial(ctx, pool, readOnly)
}

// pool is for one connection.
func (db *DB) pool(readOnly bool) (*sql.DB, error) {
	pool, err := sql.Open("sqlite3", dsn(db.path, readOnly))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	pool.SetMaxOpenConns(1)
	return pool, nil
}

// dial opens the connection of a pool and reads its pragmas back.
func (db *DB) dial(ctx context.Context, pool *sql.DB, readOnly bool) (*conn, error) {
	sc, err := pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", db.path, err)
	}
	c := &conn{sql: sc, commands: map[string]*sqlite3.SQLiteStmt{}}
	err = sc.Raw(func(dc any) error {
		c.raw = dc.(*sqlite3.SQLiteConn)
		return nil
	})
	if err == nil {
		err = c.set(pragmas(readOnly))
	}
	if err == nil {
		err = c.verify(ctx, pragmas(readOnly))
	}
	if err != nil {
		_ = sc.Close()
		return nil, fmt.Errorf("open database %s: %w", db.path, err)
	}

	return c, nil
}

// set applies the settings for which the driver has no parameter.
func (c *conn) set(list []pragma) error {
	for _, p := range list {
		if p.param != "" || p.set == "" {
			continue
		}
		if err := c.exec("PRAGMA " + p.name + "=" + p.set); err != nil {
			return fmt.Errorf("set pragma %s: %w", p.name, err)
		}
	}
	return nil
}

// verify reads every pragma back, because SQLite ignores an unknown name, or a file
// system without shared memory, without an error.
func (c *conn) verify(ctx context.Context, list []pragma) error {
	for _, p := range list {
		var got string
		if err := c.sql.QueryRowContext(ctx, "PRAGMA "+p.name).Scan(&got); err != nil {
			return fmt.Errorf("read pragma %s: %w", p.name, err)
		}
		if got != p.want {
			return fmt.Errorf("%w: %s is %q, want %q", ErrPragma, p.name, got, p.want)
		}
	}
	return nil
}

// exec runs a statement without arguments. Nothing can interrupt it.
func (c *conn) exec(query string) error {
	_, err := c.sql.ExecContext(context.Background(), query)
	return err
}

// execArgs is exec for a statement with arguments. It bypasses database/sql, because a
// connection that one goroutine uses does not need its locks.
func (c *conn) execArgs(query string, args []any) (sql.Result, error) {
	values := make([]driver.NamedValue, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return c.raw.ExecContext(context.Background(), query, values)
}

// command is exec for the few statements that begin and end transactions. It prepares
// each only once.
func (c *conn) command(query string) error {
	s := c.commands[query]
	if s == nil {
		p, err := c.raw.Prepare(query)
		if err != nil {
			return err
		}
		s = p.(*sqlite3.SQLiteStmt)
		c.commands[query] = s
	}
	_, err := s.Exec(nil)
	return err
}

// inTx reports whether a transaction is open. After some errors, such as a full disk,
// SQLite rolls it back by itself.
func (c *conn) inTx() bool { return !c.raw.AutoCommit() }

func (c *conn) close() error {
	for _, s := range c.commands {
		_ = s.Close() // the error of the connection is reported instead
	}
	if err := c.sql.Close(); err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}
