package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// Meta returns the value of key, "" if it was never set.
func (tx *Tx) Meta(key string) (string, error) {
	var v string
	err := tx.QueryRow("SELECT value FROM meta WHERE key = ?", key).Scan(&v)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return v, nil
}

// SetMeta sets key in the same transaction as whatever else tx does: a cursor
// moves together with its effect, or not at all.
func (tx *Tx) SetMeta(key, value string) error {
	_, err := tx.Exec("INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value", key, value)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// Cursor returns the number kept under name, 0 if it was never set.
func (tx *Tx) Cursor(name string) (int64, error) {
	v, err := tx.Meta("cursor/" + name)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cursor %s: %w", name, err)
	}
	return n, nil
}

// SetCursor is SetMeta for a number.
func (tx *Tx) SetCursor(name string, value int64) error {
	return tx.SetMeta("cursor/"+name, strconv.FormatInt(value, 10))
}
