package sqlite

import (
	"context"
	"database/sql"
)

// Tx is the transaction of one Update or View. It is used by the goroutine of
// that function and ends with it: what it returned must not be used later.
type Tx struct {
	ctx   context.Context // of a View; never cancelled in an Update
	conn  *conn
	ended bool
	rows  []*sql.Rows
}

// usable refuses a statement outside the transaction: SQLite would commit it on
// its own at once.
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

// Query runs a statement that returns rows. Rows that the function leaves open
// are closed when it returns.
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

// QueryRow runs a statement of which only the first row is wanted. Its errors
// wait for Scan.
func (tx *Tx) QueryRow(query string, args ...any) *Row {
	if err := tx.usable(); err != nil {
		return &Row{err: err}
	}
	return &Row{row: tx.conn.sql.QueryRowContext(tx.ctx, query, args...)}
}

// finish closes what the function left open, so that no statement pins the
// snapshot or the log.
func (tx *Tx) finish() {
	tx.ended = true
	for _, r := range tx.rows {
		_ = r.Close() // its error was the function's to read
	}
	tx.rows = nil
}

// Row is the result of QueryRow.
type Row struct {
	row *sql.Row
	err error
}

// Scan copies the columns into dest. It returns sql.ErrNoRows if there was no
// row.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(dest...)
}
