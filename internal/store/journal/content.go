package journal

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// MaxContentBytes bounds one stored content.
const MaxContentBytes = 64 << 20

// PutContent stores data under its digest, for good. Storing it again is fine.
func (tx Journal) PutContent(data []byte) (hashing.Digest, error) {
	d, added, err := tx.storeContent(data, true)
	if err != nil || added {
		return d, err
	}
	_, err = tx.Exec(`INSERT INTO content_pins(digest) SELECT digest FROM contents WHERE digest = ? AND pinned = 0
		ON CONFLICT DO NOTHING`, d[:])
	if err != nil {
		return d, fmt.Errorf("pin content: %w", err)
	}
	return d, nil
}

// AddContent stores data without a pin: the journal entry or the segment that
// refers to it keeps it.
func (tx Journal) AddContent(data []byte) (hashing.Digest, error) {
	d, _, err := tx.storeContent(data, false)
	return d, err
}

// storeContent stores data that is not there yet.
func (tx Journal) storeContent(data []byte, pinned bool) (d hashing.Digest, added bool, err error) {
	if len(data) > MaxContentBytes {
		return d, false, fmt.Errorf("content of %d bytes, at most %d: %w", len(data), MaxContentBytes, row.ErrTooLarge)
	}
	d = hashing.Bytes(data)
	res, err := tx.Exec("INSERT INTO contents(digest, bytes, pinned) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", d[:], row.NotNull(data), pinned)
	if err != nil {
		return d, false, fmt.Errorf("store content: %w", err)
	}
	n, err := res.RowsAffected()
	return d, n > 0, err
}

// Content returns the bytes with this digest. They are hashed again: ErrCorrupt
// if they changed. ErrNotFound if they were never stored, or pruned.
func (tx Journal) Content(d hashing.Digest) ([]byte, error) {
	var data []byte
	err := tx.QueryRow("SELECT bytes FROM contents WHERE digest = ?", d[:]).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("content %s: %w", d, row.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read content: %w", err)
	case hashing.Bytes(data) != d:
		return nil, fmt.Errorf("content %s: %w", d, row.ErrCorrupt)
	}
	return data, nil
}

// HasContent reports whether the bytes with this digest are stored.
func (tx Journal) HasContent(d hashing.Digest) (bool, error) {
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM contents WHERE digest = ?", d[:]).Scan(&n); err != nil {
		return false, fmt.Errorf("look for content: %w", err)
	}
	return n > 0, nil
}

// DropContent deletes the bytes if nothing refers to them any more.
func (tx Journal) DropContent(d hashing.Digest) error {
	_, err := tx.Exec("DELETE FROM contents WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM content_refs WHERE digest = ?1)", d[:])
	if err != nil {
		return fmt.Errorf("delete content: %w", err)
	}
	return nil
}

// PutContents stores bytes under their digests.
func (tx Journal) PutContents(contents [][]byte) error {
	for _, c := range contents {
		if _, err := tx.PutContent(c); err != nil {
			return err
		}
	}
	return nil
}
