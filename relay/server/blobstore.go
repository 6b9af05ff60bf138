package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

var (
	errBlobsFull   = errors.New("no room for more blobs")
	errBlobsOfKey  = errors.New("this key has no room for more blobs here")
	errBlobHash    = errors.New("the blob is not the one that was authorized")
	errBlobHeader  = errors.New("X-SHA-256 is not 64 hex digits")
	errBlobLength  = errors.New("X-Content-Length is not the number of the blob's bytes")
	errBlobOther   = errors.New("the blob is not the one that X-SHA-256 announced")
	errBlobUnknown = errors.New("no such blob")
	errNotOwner    = errors.New("the blob belongs to another key")
)

// blob describes a stored blob.
type blob struct {
	hash     string // hex
	size     int64
	mime     string
	uploaded int64         // unix seconds
	body     sql.NullInt64 // of blob_bodies; none for a file
}

// ownedCost is the space counted for each owner of a blob, about that of its rows.
// Without it, tiny blobs and further owners of a blob would be free.
const ownedCost = 512

// blobStore keeps small blobs in the database and others as files named by their
// hash. Clients see only blobs that have a row.
type blobStore struct {
	*blobFiles
	db   *sqlite.DB
	max  int64 // of one blob
	room *blobRoom
}

func openBlobs(ctx context.Context, db *sqlite.DB, cfg Config) (*blobStore, error) {
	b := &blobStore{
		blobFiles: newBlobFiles(filepath.Join(cfg.Dir, "blobs")),
		db:        db,
		max:       cfg.Limits.MaxBlobBytes,
		room:      newBlobRoom(cfg),
	}

	named := map[string]bool{}
	err := db.View(ctx, func(tx *sqlite.Tx) error {
		if err := b.room.load(tx); err != nil {
			return err
		}
		rows, err := tx.Query("SELECT lower(hex(sha256)) FROM blobs WHERE body IS NULL")
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var hash string
			if err := rows.Scan(&hash); err != nil {
				return err
			}
			named[hash] = true
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return b, b.sweep(named)
}

// put stores the body for its owner and returns once it is durable; fresh is true if
// the blob was not stored before. announced is the hash that it must have, "" for any
// authorized one; size is the announced length, negative if it is unknown.
func (b *blobStore) put(ctx context.Context, auth blobAuth, announced, mime string, body io.Reader, size int64) (stored blob, fresh bool, err error) {
	if size > b.max {
		return blob{}, false, errBlobTooLarge
	}
	if size < 0 {
		size = b.max
	}
	if err := b.fitsDisk(size); err != nil {
		return blob{}, false, err
	}
	if err := b.enter(ctx, auth.pubkey, size+ownedCost); err != nil {
		return blob{}, false, err
	}
	defer b.room.leave(auth.pubkey, size+ownedCost)

	in, err := b.receive(body, size)
	if err != nil {
		return blob{}, false, err
	}
	defer b.discard(in)
	if announced != "" && in.hash != announced {
		return blob{}, false, errBlobOther
	}
	if !auth.allows(in.hash) {
		return blob{}, false, errBlobHash
	}

	// Others' blobs are evicted only now that the upload is received: announcing one
	// is free, so it must not displace anything.
	if err := b.reserve(ctx, auth.pubkey, in.size+ownedCost); err != nil {
		return blob{}, false, err
	}

	defer b.room.release(auth.pubkey, in.size+ownedCost)
	return b.commit(ctx, in, mime, func(tx *sqlite.Tx, n blob) error {
		_, err := tx.Exec(`INSERT INTO blob_owners (sha256, pubkey, size, since) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET since = excluded.since`,
			unhex(in.hash), unhex(auth.pubkey), n.size, time.Now().UnixMilli())
		return err
	})
}

// commit makes the blob durable, and then inserts its row in one transaction with
// claim, which records whose it is. fresh is true if there was no row before.
func (b *blobStore) commit(ctx context.Context, in incoming, mime string, claim func(*sqlite.Tx, blob) error) (stored blob, fresh bool, err error) {
	if in.file != "" {
		folder := b.folder(in.hash)
		folder.mu.Lock()
		defer folder.mu.Unlock()
		if err := b.moveIn(in); err != nil {
			return blob{}, false, fmt.Errorf("store blob: %w", err)
		}
	}

	var change blobUse
	err = b.db.Update(ctx, func(tx *sqlite.Tx) error {
		before, err := b.room.use(tx, in.hash)
		if err != nil {
			return err
		}
		stored, err = readBlob(tx, in.hash)
		fresh = errors.Is(err, errBlobUnknown)
		if err != nil && !fresh {
			return err
		}
		if fresh {
			stored = blob{hash: in.hash, size: in.size, mime: mime, uploaded: time.Now().Unix()}
		}

		// A small one may be a file from before they were kept here, and lost.
		if fresh || in.file == "" && !stored.body.Valid {
			if err := insertBlob(tx, stored, in); err != nil {
				return err
			}
		}

		if err := claim(tx, stored); err != nil {
			return err
		}
		after, err := b.room.use(tx, in.hash)
		change = after.minus(before)
		return err
	})
	if err != nil {
		return blob{}, false, errors.Join(fmt.Errorf("store blob: %w", err), b.removeUnclaimed(ctx, in))
	}
	b.room.add(change)
	return stored, fresh, nil
}

// removeUnclaimed removes the file of an upload whose row was not inserted, unless
// another upload of the same blob has one. The caller holds the folder's lock.
func (b *blobStore) removeUnclaimed(ctx context.Context, in incoming) error {
	if in.file == "" {
		return nil
	}
	err := b.db.View(context.WithoutCancel(ctx), func(tx *sqlite.Tx) error {
		_, err := readBlob(tx, in.hash)
		return err
	})
	if errors.Is(err, errBlobUnknown) {
		return os.Remove(b.path(in.hash))
	}
	return err
}

// insertBlob inserts a blob, a small one with its bytes.
func insertBlob(tx *sqlite.Tx, n blob, in incoming) error {
	var body any
	if in.file == "" {
		res, err := tx.Exec("INSERT INTO blob_bodies (body) VALUES (?)", in.small)
		if err != nil {
			return err
		}
		if body, err = res.LastInsertId(); err != nil {
			return err
		}
	}

	_, err := tx.Exec(`INSERT INTO blobs (sha256, size, type, uploaded, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET body = excluded.body`,
		unhex(n.hash), n.size, n.mime, n.uploaded, body)
	return err
}

func readBlob(tx *sqlite.Tx, hash string) (blob, error) {
	n := blob{hash: hash}
	err := tx.QueryRow("SELECT size, type, uploaded, body FROM blobs WHERE sha256 = ?", unhex(hash)).
		Scan(&n.size, &n.mime, &n.uploaded, &n.body)
	if errors.Is(err, sql.ErrNoRows) {
		return n, errBlobUnknown
	}
	return n, err
}

// open returns a blob and its bytes, which the caller closes.
func (b *blobStore) open(ctx context.Context, hash string) (n blob, body io.ReadSeekCloser, err error) {
	var small []byte
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		n, err = readBlob(tx, hash)
		if err != nil || !n.body.Valid {
			return err
		}
		return tx.QueryRow("SELECT body FROM blob_bodies WHERE id = ?", n.body).Scan(&small)
	})
	if err != nil {
		return n, nil, err
	}
	if n.body.Valid {
		return n, inMemory{bytes.NewReader(small)}, nil
	}

	f, err := os.Open(b.path(hash))
	if errors.Is(err, os.ErrNotExist) { // deleted since the row was read
		err = errBlobUnknown
	}
	return n, f, err
}

// inMemory is the body of a small blob.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// remove removes an owner from a blob, and the blob with its last claim.
func (b *blobStore) remove(ctx context.Context, owner, hash string) error {
	return b.unclaim(ctx, hash, func(tx *sqlite.Tx) error {
		res, err := tx.Exec("DELETE FROM blob_owners WHERE sha256 = ? AND pubkey = ?", unhex(hash), unhex(owner))
		if err != nil {
			return err
		}
		if rows, err := res.RowsAffected(); err != nil || rows == 0 {
			return errors.Join(err, errNotOwner)
		}
		return nil
	})
}

// unclaim gives a claim up, and removes the blob with its last one: owners and rooms
// have claims.
func (b *blobStore) unclaim(ctx context.Context, hash string, giveUp func(*sqlite.Tx) error) error {
	in := b.folder(hash)
	in.mu.Lock()
	defer in.mu.Unlock()

	var (
		n       blob
		change  blobUse
		claimed bool
	)
	err := b.db.Update(ctx, func(tx *sqlite.Tx) (err error) {
		if n, err = readBlob(tx, hash); err != nil {
			return err
		}
		before, err := b.room.use(tx, hash)
		if err != nil {
			return err
		}
		if err := giveUp(tx); err != nil {
			return err
		}

		claimed, err = exists(tx, `SELECT 1 FROM blob_owners WHERE sha256 = ?1
			UNION ALL SELECT 1 FROM room_blobs WHERE sha256 = ?1`, unhex(hash))
		if err != nil {
			return err
		}
		if !claimed {
			if _, err := tx.Exec("DELETE FROM blobs WHERE sha256 = ?", unhex(hash)); err != nil {
				return err
			}
			if _, err = tx.Exec("DELETE FROM blob_bodies WHERE id = ?", n.body); err != nil {
				return err
			}
		}

		after, err := b.room.use(tx, hash)
		change = after.minus(before)
		return err
	})
	if err != nil {
		return err
	}
	b.room.add(change)
	if claimed {
		return nil
	}
	err = os.Remove(b.path(hash))
	if n.body.Valid && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
