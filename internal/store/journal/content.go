package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// MaxContentBytes bounds one stored content.
const MaxContentBytes = 64 << 20

// pieceBytes is how much of a content one row has.
const pieceBytes = 256 << 10

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
	first, rest := data[:min(len(data), pieceBytes)], data[min(len(data), pieceBytes):]
	res, err := tx.Exec("INSERT INTO contents(digest, size, bytes, pinned) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", d[:], len(data), row.NotNull(first), pinned)
	if err != nil {
		return d, false, fmt.Errorf("store content: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 || len(rest) == 0 {
		return d, n > 0, err
	}

	return d, true, tx.storePieces(d, rest)
}

// storePieces stores what a content has beyond its first piece. Pieces that are left of
// the same content, which was deleted a moment ago, are its own again.
func (tx Journal) storePieces(d hashing.Digest, rest []byte) error {
	n := 0
	for piece := range slices.Chunk(rest, pieceBytes) {
		n++
		if _, err := tx.Exec("INSERT INTO content_pieces(digest, n, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", d[:], n, piece); err != nil {
			return fmt.Errorf("store content: %w", err)
		}
	}
	if _, err := tx.Exec("DELETE FROM content_rests WHERE digest = ?", d[:]); err != nil {
		return fmt.Errorf("store content: %w", err)
	}
	return nil
}

// Content returns the bytes with this digest. They are hashed again: ErrCorrupt
// if they changed. ErrNotFound if they were never stored, or pruned.
func (tx Journal) Content(d hashing.Digest) ([]byte, error) {
	var data []byte
	var size int
	err := tx.QueryRow("SELECT size, bytes FROM contents WHERE digest = ?", d[:]).Scan(&size, &data)
	if err == nil && size > len(data) {
		data, err = tx.withPieces(d, data, size)
	}
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

// withPieces is a content of that size from its first piece.
func (tx Journal) withPieces(d hashing.Digest, first []byte, size int) ([]byte, error) {
	pieces, err := row.Column(tx.Tx, func(rows *sql.Rows, piece *[]byte) error { return rows.Scan(piece) },
		"SELECT bytes FROM content_pieces WHERE digest = ? ORDER BY n", d[:])
	return slices.Concat(append([][]byte{slices.Grow(first, max(0, size-len(first)))}, pieces...)...), err
}

// HasContent reports whether the bytes with this digest are stored.
func (tx Journal) HasContent(d hashing.Digest) (bool, error) {
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM contents WHERE digest = ?", d[:]).Scan(&n); err != nil {
		return false, fmt.Errorf("look for content: %w", err)
	}
	return n > 0, nil
}

// DropContent deletes the bytes if nothing refers to them any more. Of a large content it
// leaves pieces to [Journal.DropPieces].
func (tx Journal) DropContent(d hashing.Digest) error {
	_, err := tx.Exec("DELETE FROM contents WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM content_refs WHERE digest = ?1)", d[:])
	if err != nil {
		return fmt.Errorf("delete content: %w", err)
	}
	return nil
}

// DropPieces deletes up to limit pieces of contents that were deleted, and returns how
// many.
func (tx Journal) DropPieces(limit int) (n int, err error) {
	var d []byte
	err = tx.QueryRow("SELECT digest FROM content_rests LIMIT 1").Scan(&d)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for pieces: %w", err)
	}

	pieces, err := row.Column(tx.Tx, func(rows *sql.Rows, n *int64) error { return rows.Scan(n) },
		"SELECT n FROM content_pieces WHERE digest = ? ORDER BY n LIMIT ?", d, limit)
	if err != nil {
		return 0, fmt.Errorf("look for pieces: %w", err)
	}
	for _, piece := range pieces {
		if _, err := tx.Exec("DELETE FROM content_pieces WHERE digest = ? AND n = ?", d, piece); err != nil {
			return 0, fmt.Errorf("delete a piece: %w", err)
		}
	}
	if len(pieces) < limit {
		if _, err := tx.Exec("DELETE FROM content_rests WHERE digest = ?", d); err != nil {
			return 0, fmt.Errorf("delete the last piece: %w", err)
		}
	}
	return max(1, len(pieces)), nil
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
