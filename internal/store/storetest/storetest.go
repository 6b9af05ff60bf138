// Package storetest has a store with a clock that the test owns, and jobs, purchases and
// debts to fill it with.
package storetest

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
)

// Start is the clock of every test store, until a test moves it.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// DB is a store with a clock that the test owns.
type DB struct {
	*store.Store
	Dir string
	Now time.Time
}

// Open is a new store that the test closes as it ends.
func Open(t testing.TB) *DB {
	t.Helper()
	k := &DB{Dir: filepath.Join(t.TempDir(), "node"), Now: Start}
	k.Reopen(t)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// Reopen closes the store and opens it again.
func (k *DB) Reopen(t testing.TB) {
	t.Helper()
	if k.Store != nil {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if k.Store, err = store.Open(t.Context(), k.Dir, store.Options{Now: func() time.Time { return k.Now }}); err != nil {
		t.Fatal(err)
	}
}

// Change runs fn in a transaction that must succeed.
func (k *DB) Change(t testing.TB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := k.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// Read runs fn on one state, which must succeed.
func (k *DB) Read(t testing.TB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := k.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// Count is the number that a query gives.
func (k *DB) Count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	k.Read(t, func(tx *store.Tx) error { return tx.QueryRow(query, args...).Scan(&n) })
	return n
}

// Dump renders every row of every table.
func (k *DB) Dump(t testing.TB) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	k.Read(t, func(tx *store.Tx) error {
		tables, err := tx.Strings("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
		if err != nil {
			return err
		}
		for _, table := range tables {
			rows, err := tx.Query("SELECT * FROM " + table)
			if err != nil {
				return err
			}
			if out[table], err = render(rows); err != nil {
				return err
			}
		}
		return nil
	})
	return out
}

func render(rows *sql.Rows) ([]string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []string
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		var b strings.Builder
		for _, v := range values {
			fmt.Fprintf(&b, "%v|", *v.(*any))
		}
		list = append(list, b.String())
	}
	return list, rows.Err()
}

// HexID makes a 64-digit id from a short name.
func HexID(format string, args ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, format, args...)))
}

// Digest is that of a name.
func Digest(name string) hashing.Digest { return hashing.Bytes([]byte(name)) }

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
