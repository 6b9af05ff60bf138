package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

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
