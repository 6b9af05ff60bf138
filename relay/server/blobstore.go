package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
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
	errBlobsOfKey   = errors.New("this key has no room for more blobs here")
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

// smallBlob is the size in bytes up to which a blob is kept in the database, where
// many share one commit; a separate file costs three fsyncs.
const smallBlob = 64 << 10

// ownedCost is the space counted for each owner of a blob, about that of its rows.
// Without it, tiny blobs and further owners of a blob would be free.
const ownedCost = 512

// blobStore keeps small blobs in the database and others as files named by their
// hash. Clients see only blobs that have a row.
type blobStore struct {
	db   *sqlite.DB
	dir  string
	max  int64 // of one blob
	room *blobRoom

	// folders hold the blobs by the first byte of their hashes.
	folders [256]blobFolder
}

func openBlobs(ctx context.Context, db *sqlite.DB, cfg Config) (*blobStore, error) {
	b := &blobStore{
		db:   db,
		dir:  filepath.Join(cfg.Dir, "blobs"),
		max:  cfg.Limits.MaxBlobBytes,
		room: newBlobRoom(cfg),
	}

	// Uploads that were running when the process ended left temporary files.
	if err := os.RemoveAll(b.temp()); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.temp(), 0o700); err != nil {
		return nil, err
	}

	return b, db.View(ctx, b.room.load)
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
	if err := b.enter(ctx, auth.pubkey, size+ownedCost); err != nil {
		return blob{}, false, err
	}
	defer b.room.leave(auth.pubkey, size+ownedCost)

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

	// Others' blobs are evicted only now that the upload is received: announcing one
	// is free, so it must not displace anything.
	if err := b.reserve(ctx, auth.pubkey, in.size+ownedCost); err != nil {
		return blob{}, false, err
	}

	defer b.room.release(auth.pubkey, in.size+ownedCost)
	if stored, fresh, err = b.commit(ctx, auth.pubkey, in, mime); err != nil {
		return blob{}, false, fmt.Errorf("store blob: %w", err)
	}
	return stored, fresh, nil
}

// commit makes the blob durable and then inserts its row. fresh is true if there was
// no row before.
func (b *blobStore) commit(ctx context.Context, owner string, in incoming, mime string) (stored blob, fresh bool, err error) {
	if in.file != "" {
		folder := b.folder(in.hash)
		folder.mu.Lock()
		defer folder.mu.Unlock()
		if err := b.moveIn(in); err != nil {
			return stored, false, err
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

		_, err = tx.Exec(`INSERT INTO blob_owners (sha256, pubkey, size, since) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET since = excluded.since`,
			unhex(in.hash), unhex(owner), stored.size, time.Now().UnixMilli())
		if err != nil {
			return err
		}
		after, err := b.room.use(tx, in.hash)
		change = after.minus(before)
		return err
	})
	if err != nil {
		return stored, false, err
	}
	b.room.add(change)
	return stored, fresh, nil
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

// remove removes an owner from a blob, and the blob with its last owner.
func (b *blobStore) remove(ctx context.Context, owner, hash string) error {
	in := b.folder(hash)
	in.mu.Lock()
	defer in.mu.Unlock()

	var (
		n      blob
		change blobUse
	)
	err := b.db.Update(ctx, func(tx *sqlite.Tx) (err error) {
		if n, err = readBlob(tx, hash); err != nil {
			return err
		}
		before, err := b.room.use(tx, hash)
		if err != nil {
			return err
		}
		res, err := tx.Exec("DELETE FROM blob_owners WHERE sha256 = ? AND pubkey = ?", unhex(hash), unhex(owner))
		if err != nil {
			return err
		}
		if rows, err := res.RowsAffected(); err != nil || rows == 0 {
			return errors.Join(err, errNotOwner)
		}

		hasOwners, err := exists(tx, "SELECT 1 FROM blob_owners WHERE sha256 = ?", unhex(hash))
		if err != nil {
			return err
		}
		if !hasOwners {
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
	if change.all > -n.size-ownedCost {
		return nil // others have it
	}
	err = os.Remove(b.path(hash))
	if n.body.Valid && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// blobFolder is one folder of blobs. Blobs of several become durable at once.
type blobFolder struct {
	// mu keeps an upload and a deletion of the same blob apart.
	mu sync.Mutex
	// named is whether the folder's own name is known to be durable; guarded by mu.
	named bool
}

func (b *blobStore) folder(hash string) *blobFolder { return &b.folders[unhex(hash)[0]] }

func (b *blobStore) temp() string { return filepath.Join(b.dir, "tmp") }

func (b *blobStore) path(hash string) string { return filepath.Join(b.dir, hash[:2], hash) }

// incoming is a completely received blob: a small one in memory, a larger one in a
// durable temporary file.
type incoming struct {
	hash  string // hex
	size  int64
	small []byte // nil if there is a file
	file  string
}

// receive reads a blob of at most limit bytes. Its true size, not the announced one,
// decides whether it is kept in memory.
func (b *blobStore) receive(body io.Reader, limit int64) (incoming, error) {
	head := new(bytes.Buffer)
	n, err := head.ReadFrom(io.LimitReader(body, smallBlob+1))
	switch {
	case err != nil:
		return incoming{}, fmt.Errorf("receive blob: %w", err)
	case n > limit:
		return incoming{}, errBlobTooLarge
	case n > smallBlob:
		return b.spool(io.MultiReader(head, body), limit)
	}

	sum := sha256.Sum256(head.Bytes())
	return incoming{hash: hex.EncodeToString(sum[:]), size: n, small: head.Bytes()}, nil
}

// spool writes at most limit bytes to a temporary file, made durable.
func (b *blobStore) spool(body io.Reader, limit int64) (in incoming, err error) {
	f, err := os.CreateTemp(b.temp(), "upload-*")
	if err != nil {
		return incoming{}, fmt.Errorf("store blob: %w", err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()

	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(body, limit+1))
	if err != nil {
		return incoming{}, fmt.Errorf("receive blob: %w", err)
	}
	if n > limit {
		return incoming{}, errBlobTooLarge
	}
	if err := f.Sync(); err != nil {
		return incoming{}, fmt.Errorf("store blob: %w", err)
	}

	return incoming{hash: hex.EncodeToString(h.Sum(nil)), size: n, file: f.Name()}, nil
}

// moveIn moves the file to its final name, durably, before its row is inserted. A
// crash in between leaves a file that the next upload replaces. The caller holds the
// folder's lock.
func (b *blobStore) moveIn(in incoming) error {
	folder := filepath.Dir(b.path(in.hash))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := os.Rename(in.file, b.path(in.hash)); err != nil {
		return err
	}
	if err := syncDir(folder); err != nil {
		return err
	}

	if in := b.folder(in.hash); !in.named {
		if err := syncDir(b.dir); err != nil {
			return err
		}
		in.named = true
	}

	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
