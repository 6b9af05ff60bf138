package sqlite

import (
	"context"
	"database/sql"
)

// Tx is the transaction of one Update or View. Only the goroutine of that function may
// use it. It ends with the function, so its rows and results must not be used later.
type Tx struct {
	ctx   context.Context // the caller's in a View; never canceled in an Update
	conn  *conn
	ended bool
	rows  []*sql.Rows
}

// usable refuses a statement after the end of the transaction, because SQLite would
// commit it at once on its own.
func (tx *Tx) usable() error {
	if tx.ended || !tx.conn.inTx() {
		return ErrTxDone
	}
	return nil
}

// Exec runs a statement that returns no rows. BEGIN, COMMIT, ROLLBACK and
// SAVEPOINT belong to this package.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	return tx.conn.execArgs(query, args)
}

// Query runs a statement that returns rows. The end of the transaction closes rows
// that are still open.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	if err := tx.usable(); err != nil {
		return nil, err
	}
	rows, err := tx.conn.sql.QueryContext(tx.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	tx.rows = append(tx.rows, rows)
	return rows, nil
}

// QueryRow runs a statement and returns its first row. Errors are reported by Scan.
func (tx *Tx) QueryRow(query string, args ...any) *Row {
	if err := tx.usable(); err != nil {
		return &Row{err: err}
	}
	return &Row{row: tx.conn.sql.QueryRowContext(tx.ctx, query, args...)}
}

// finish closes rows that the function left open, because an open statement would hold
// the snapshot and keep the log from being truncated.
func (tx *Tx) finish() {
	tx.ended = true
	for _, r := range tx.rows {
		_ = r.Close() // the function could have read its error
	}
	tx.rows = nil
}

// Row is the result of QueryRow.
type Row struct {
	row *sql.Row
	err error
}

// Scan copies the columns into dest. Without a row it returns [sql.ErrNoRows].
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(dest...)
}
