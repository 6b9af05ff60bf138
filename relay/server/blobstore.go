package server

import (
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
	errBlobHash     = errors.New("the blob is not the one that was authorized")
	errBlobUnknown  = errors.New("no such blob")
	errNotOwner     = errors.New("the blob belongs to another key")
)

// blob describes a stored blob.
type blob struct {
	hash     string // hex
	size     int64
	mime     string
	uploaded int64 // unix seconds
}

// blobStore keeps blobs as files named by their hash. Only a file with a row
// in the database exists for clients.
type blobStore struct {
	db    *sqlite.DB
	dir   string
	max   int64 // of one blob
	total int64 // of all

	mu   sync.Mutex
	used int64 // guarded by mu: stored bytes and reservations of running uploads

	// folders hold the blobs by the first byte of their hashes.
	folders [256]blobFolder
}

// blobFolder is one folder of blobs. Blobs of several become durable at once.
type blobFolder struct {
	// mu keeps an upload and a deletion of the same blob apart.
	mu sync.Mutex
	// named is whether the folder's own name is known to be durable; guarded by mu.
	named bool
}

func (b *blobStore) folder(hash string) *blobFolder { return &b.folders[unhex(hash)[0]] }

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
		return tx.QueryRow("SELECT coalesce(sum(size), 0) FROM blobs").Scan(&b.used)
	})
	return b, err
}

func (b *blobStore) temp() string { return filepath.Join(b.dir, "tmp") }

func (b *blobStore) path(hash string) string { return filepath.Join(b.dir, hash[:2], hash) }

// taken is the size of all blobs and of the reservations.
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

// put stores what body holds for its owner and returns once it is durable.
// size is the announced length, negative if it is not known.
func (b *blobStore) put(ctx context.Context, auth blobAuth, mime string, body io.Reader, size int64) (blob, error) {
	if size > b.max {
		return blob{}, errBlobTooLarge
	}
	room := size
	if size < 0 {
		room = b.max
	}
	if !b.reserve(room) {
		return blob{}, errBlobsFull
	}
	kept := int64(0)
	defer func() { b.free(room - kept) }()

	name, hash, n, err := b.receive(body, room)
	if err != nil {
		return blob{}, err
	}
	defer os.Remove(name) // fails once it was renamed
	if !auth.allows(hash) {
		return blob{}, errBlobHash
	}
	in := b.folder(hash)
	in.mu.Lock()
	defer in.mu.Unlock()
	made, fresh, err := b.commit(ctx, auth.pubkey, name, blob{hash, n, mime, time.Now().Unix()})
	if err != nil {
		return blob{}, fmt.Errorf("store blob: %w", err)
	}
	if fresh {
		kept = n
	}
	return made, nil
}

// receive writes at most limit bytes to a temporary file, made durable.
func (b *blobStore) receive(body io.Reader, limit int64) (name, hash string, n int64, err error) {
	f, err := os.CreateTemp(b.temp(), "upload-*")
	if err != nil {
		return "", "", 0, fmt.Errorf("store blob: %w", err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(f, h), io.LimitReader(body, limit+1))
	if err != nil {
		return "", "", 0, fmt.Errorf("receive blob: %w", err)
	}
	if n > limit {
		return "", "", 0, errBlobTooLarge
	}
	if err := f.Sync(); err != nil {
		return "", "", 0, fmt.Errorf("store blob: %w", err)
	}
	return f.Name(), hex.EncodeToString(h.Sum(nil)), n, nil
}

// commit moves the file to its name, durably, before the row says that it is
// there. A crash between the two leaves a file that the next upload replaces.
// The caller has the folder's lock.
func (b *blobStore) commit(ctx context.Context, owner, name string, n blob) (made blob, fresh bool, err error) {
	folder := filepath.Dir(b.path(n.hash))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return n, false, err
	}
	if err := os.Rename(name, b.path(n.hash)); err != nil {
		return n, false, err
	}
	if err := syncDir(folder); err != nil {
		return n, false, err
	}
	if in := b.folder(n.hash); !in.named {
		if err := syncDir(b.dir); err != nil {
			return n, false, err
		}
		in.named = true
	}
	err = b.db.Update(ctx, func(tx *sqlite.Tx) error {
		res, err := tx.Exec("INSERT INTO blobs (sha256, size, type, uploaded) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			unhex(n.hash), n.size, n.mime, n.uploaded)
		if err != nil {
			return err
		}
		rows, err := res.RowsAffected()
		if err != nil {
			return err
		}
		fresh = rows > 0
		if _, err := tx.Exec("INSERT INTO blob_owners (sha256, pubkey) VALUES (?, ?) ON CONFLICT DO NOTHING",
			unhex(n.hash), unhex(owner)); err != nil {
			return err
		}
		made, err = readBlob(tx, n.hash)
		return err
	})
	return made, fresh, err
}

func readBlob(tx *sqlite.Tx, hash string) (blob, error) {
	n := blob{hash: hash}
	err := tx.QueryRow("SELECT size, type, uploaded FROM blobs WHERE sha256 = ?", unhex(hash)).
		Scan(&n.size, &n.mime, &n.uploaded)
	if errors.Is(err, sql.ErrNoRows) {
		return n, errBlobUnknown
	}
	return n, err
}

// open returns a blob and its file, which the caller closes.
func (b *blobStore) open(ctx context.Context, hash string) (n blob, f *os.File, err error) {
	err = b.db.View(ctx, func(tx *sqlite.Tx) error {
		n, err = readBlob(tx, hash)
		return err
	})
	if err != nil {
		return n, nil, err
	}
	f, err = os.Open(b.path(hash))
	if errors.Is(err, os.ErrNotExist) { // deleted since the row was read
		err = errBlobUnknown
	}
	return n, f, err
}

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
		_, err = tx.Exec("DELETE FROM blobs WHERE sha256 = ?", unhex(hash))
		return err
	})
	if err != nil || !last {
		return err
	}
	b.free(n.size)
	return os.Remove(b.path(hash))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
