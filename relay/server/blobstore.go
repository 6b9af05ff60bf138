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
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

var (
	errBlobTooLarge = errors.New("the blob is too large")
	errBlobsFull    = errors.New("no room for more blobs")
	errBlobHash     = errors.New("the blob is not the one that was authorized")
	errBlobHeader   = errors.New("X-SHA-256 is not 64 hex digits")
	errBlobOther    = errors.New("the blob is not the one that X-SHA-256 announced")
	errBlobUnknown  = errors.New("no such blob")
	errNotOwner     = errors.New("the blob belongs to another key")
)

// blob describes a stored blob.
type blob struct {
	hash     string // hex
	size     int64
	mime     string
	uploaded int64         // unix seconds
	body     sql.NullInt64 // of blob_bodies; none for a file
}

// smallBlob is up to how many bytes a blob is kept in the database, where many
// share one commit. A file of its own costs three synchronisations.
const smallBlob = 64 << 10

// ownedCost is what each owner of a blob is counted as besides its bytes: about what
// the rows take. Else tiny blobs, and more and more owners of one, would be free.
const ownedCost = 512

// blobStore keeps small blobs in the database and others as files named by
// their hash. Only what has a row in blobs exists for clients.
type blobStore struct {
	db    *sqlite.DB
	dir   string
	max   int64 // of one blob
	total int64 // of all

	mu   sync.Mutex
	used int64 // guarded by mu: stored bytes, ownedCost each, and reservations of running uploads

	// folders hold the blobs by the first byte of their hashes.
	folders [256]blobFolder
}

func openBlobs(ctx context.Context, db *sqlite.DB, cfg Config) (*blobStore, error) {
	b := &blobStore{
		db:    db,
		dir:   filepath.Join(cfg.Dir, "blobs"),
		max:   cfg.Limits.MaxBlobBytes,
		total: cfg.Limits.BlobTotalBytes,
	}
	// What an upload left behind when the process died.
	if err := os.RemoveAll(b.temp()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.temp(), 0o700); err != nil {
		return nil, err
	}
	err := db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT (SELECT coalesce(sum(size), 0) FROM blobs) + ? * (SELECT count(*) FROM blob_owners)", ownedCost).Scan(&b.used)
	})
	return b, err
}

// taken is what all blobs and the reservations count.
func (b *blobStore) taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *blobStore) reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.total {
		return false
	}
	b.used += n
	return true
}

func (b *blobStore) free(n int64) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}

// put stores what body holds for its owner and returns once it is durable, and
// whether it was not there before. announced is the hash that it must have, "" for
// any that is authorized; size is the announced length, negative if it is not known.
func (b *blobStore) put(ctx context.Context, auth blobAuth, announced, mime string, body io.Reader, size int64) (made blob, fresh bool, err error) {
	if size > b.max {
		return blob{}, false, errBlobTooLarge
	}
	if size < 0 {
		size = b.max
	}
	room, kept := size+ownedCost, int64(0)
	if !b.reserve(room) {
		return blob{}, false, errBlobsFull
	}
	defer func() { b.free(room - kept) }()

	in, err := b.receive(body, size)
	if err != nil {
		return blob{}, false, err
	}
	if in.file != "" {
		defer os.Remove(in.file) // fails once it was renamed
	}
	if announced != "" && in.hash != announced {
		return blob{}, false, errBlobOther
	}
	if !auth.allows(in.hash) {
		return blob{}, false, errBlobHash
	}
	if made, kept, fresh, err = b.commit(ctx, auth.pubkey, in, mime); err != nil {
		return blob{}, false, fmt.Errorf("store blob: %w", err)
	}
	return made, fresh, nil
}

// commit makes what came durable, and then the row that says that it is there. It
// returns what that counts more than before, and whether it was not there.
func (b *blobStore) commit(ctx context.Context, owner string, in incoming, mime string) (made blob, more int64, fresh bool, err error) {
	if in.file != "" {
		folder := b.folder(in.hash)
		folder.mu.Lock()
		defer folder.mu.Unlock()
		if err := b.moveIn(in); err != nil {
			return made, 0, false, err
		}
	}
	err = b.db.Update(ctx, func(tx *sqlite.Tx) error {
		made, err = readBlob(tx, in.hash)
		fresh = errors.Is(err, errBlobUnknown)
		if err != nil && !fresh {
			return err
		}
		if fresh {
			made = blob{hash: in.hash, size: in.size, mime: mime, uploaded: time.Now().Unix()}
		}
		// A small one may be a file from before they were kept here, and lost.
		if fresh || in.file == "" && !made.body.Valid {
			if err := insertBlob(tx, made, in); err != nil {
				return err
			}
		}
		res, err := tx.Exec("INSERT INTO blob_owners (sha256, pubkey) VALUES (?, ?) ON CONFLICT DO NOTHING",
			unhex(in.hash), unhex(owner))
		if err != nil {
			return err
		}
		owners, err := res.RowsAffected()
		if more = owners * ownedCost; fresh {
			more += in.size
		}
		return err
	})
	if err != nil {
		return made, 0, false, err
	}
	return made, more, fresh, nil
}

// insertBlob enters a blob, a small one with its bytes.
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

// remove takes an owner from a blob, and removes it with its last one.
func (b *blobStore) remove(ctx context.Context, owner, hash string) error {
	in := b.folder(hash)
	in.mu.Lock()
	defer in.mu.Unlock()
	var n blob
	last := false
	err := b.db.Update(ctx, func(tx *sqlite.Tx) (err error) {
		if n, err = readBlob(tx, hash); err != nil {
			return err
		}
		res, err := tx.Exec("DELETE FROM blob_owners WHERE sha256 = ? AND pubkey = ?", unhex(hash), unhex(owner))
		if err != nil {
			return err
		}
		if rows, err := res.RowsAffected(); err != nil || rows == 0 {
			return errors.Join(err, errNotOwner)
		}
		others, err := exists(tx, "SELECT 1 FROM blob_owners WHERE sha256 = ?", unhex(hash))
		if err != nil || others {
			return err
		}
		last = true
		if _, err := tx.Exec("DELETE FROM blobs WHERE sha256 = ?", unhex(hash)); err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM blob_bodies WHERE id = ?", n.body)
		return err
	})
	if err != nil {
		return err
	}
	b.free(ownedCost)
	if !last {
		return nil
	}
	b.free(n.size)
	err = os.Remove(b.path(hash))
	if n.body.Valid && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
