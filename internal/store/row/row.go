// Package row is what all areas of a node's store share: the transaction with
// its one instant, the forms in which columns hold times, digests and texts, and
// the errors.
package row

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// The errors that all areas end in.
var (
	// ErrNotFound: there is no such thing in the store.
	ErrNotFound = errors.New("not found")
	// ErrDuplicate: a thing that may be recorded once was recorded before.
	ErrDuplicate = errors.New("already recorded")
	// ErrConflict: the step does not fit the present state. Nothing was written.
	ErrConflict = errors.New("step does not fit the present state")
	// ErrInvalid: what is to be recorded breaks a rule of its form.
	ErrInvalid = errors.New("not valid")
	// ErrTooLarge: bytes over a cap.
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt: what is stored is not what was stored.
	ErrCorrupt = errors.New("stored bytes do not match their digest")
)

// Tx is one transaction over the whole store.
type Tx struct {
	*sqlite.Tx
	now time.Time
}

// NewTx is tx at the instant now, which is cut to milliseconds.
func NewTx(tx *sqlite.Tx, now time.Time) *Tx { return &Tx{Tx: tx, now: FromMs(now.UnixMilli())} }

// Now is the instant of the transaction, in UTC and whole milliseconds: the one
// time that all its rows carry.
func (tx *Tx) Now() time.Time { return tx.now }

// Strings runs a query of one text column.
func (tx *Tx) Strings(query string, args ...any) ([]string, error) {
	return Column(tx, func(rows *sql.Rows, s *string) error { return rows.Scan(s) }, query, args...)
}

// Column runs a query, and scans each of its rows into a value.
func Column[T any](tx *Tx, scan func(rows *sql.Rows, v *T) error, query string, args ...any) ([]T, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	var list []T
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}

	return list, rows.Err()
}

// Ms is how a time is stored; the zero time is NULL.
func Ms(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

// FromMs is the time that a column of milliseconds holds.
func FromMs(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// FromNullMs is FromMs of a column that may be NULL, which is the zero time.
func FromNullMs(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return FromMs(ms.Int64)
}

// Text stores "" as NULL.
func Text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// Clip bounds a text from outside and makes it one that SQLite can give back.
func Clip(s string, n int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), n)], "\x00", ""), "")
}

// bytes32 scans a column that the schema holds to 32 bytes, or NULL to zero.
type bytes32[T ~[32]byte] struct{ dst *T }

func (b bytes32[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*b.dst = T{}
	case []byte:
		if len(v) != 32 {
			return fmt.Errorf("%d bytes in a column of 32: %w", len(v), ErrCorrupt)
		}
		*b.dst = T(v)
	default:
		return fmt.Errorf("%T in a column of bytes: %w", v, ErrCorrupt)
	}

	return nil
}

// Into scans a column of 32 bytes into dst; NULL is zero.
func Into[T ~[32]byte](dst *T) sql.Scanner { return bytes32[T]{dst} }

// Blob stores 32 bytes, or NULL for zero.
func Blob[T ~[32]byte](v T) []byte {
	if v == (T{}) {
		return nil
	}
	return v[:]
}

// BlobPtr stores a digest, or NULL for none.
func BlobPtr(d *hashing.Digest) []byte {
	if d == nil {
		return nil
	}
	return d[:]
}

// NotNull keeps an empty slice from being stored as NULL.
func NotNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// NotFound turns "no rows" into ErrNotFound and names what was looked for.
func NotFound(err error, what string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// AppendOnly makes the triggers that refuse to change or delete a row of the tables.
func AppendOnly(tables ...string) string {
	var b strings.Builder
	for _, t := range tables {
		for _, verb := range []string{"UPDATE", "DELETE"} {
			fmt.Fprintf(&b, "CREATE TRIGGER %s_no_%s BEFORE %s ON %s\nBEGIN SELECT RAISE(ABORT, '%s is append-only'); END;\n",
				t, strings.ToLower(verb), verb, t, t)
		}
	}
	return b.String()
}
