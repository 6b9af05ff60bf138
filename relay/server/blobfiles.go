package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

var (
	errBlobTooLarge = errors.New("the blob is too large")
	errDiskFull     = errors.New("the disk has no room for more blobs")
)

// smallBlob is the size in bytes up to which a blob is kept in the database, where
// many share one commit; a separate file costs three fsyncs.
const smallBlob = 64 << 10

// blobFiles are the files of blobs, by their hashes.
type blobFiles struct {
	dir string
	// free is how many bytes the disk has left; a test replaces it.
	free func() (int64, error)
	// folders hold the blobs by the first byte of their hashes.
	folders [256]blobFolder
}

func newBlobFiles(dir string) *blobFiles {
	return &blobFiles{dir: dir, free: func() (int64, error) {
		var disk syscall.Statfs_t
		err := syscall.Statfs(dir, &disk)
		return int64(disk.Bavail) * disk.Bsize, err
	}}
}

// sweep removes what a process that ended suddenly has left: unfinished uploads, and
// files that no row names, because the crash came between a file and its row.
func (b *blobFiles) sweep(named map[string]bool) error {
	if err := os.RemoveAll(b.temp()); err != nil {
		return err
	}
	if err := os.MkdirAll(b.temp(), 0o700); err != nil {
		return err
	}

	files, err := filepath.Glob(filepath.Join(b.dir, "[0-9a-f][0-9a-f]", "*"))
	for _, file := range files {
		if !named[filepath.Base(file)] {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

// diskLeft is what uploads leave free on the disk: the database needs it too.
const diskLeft = 64 << 20

// fitsDisk reports whether the disk has room for n bytes.
func (b *blobFiles) fitsDisk(n int64) error {
	free, err := b.free()
	if err != nil {
		return fmt.Errorf("ask for the free space of the disk: %w", err)
	}
	if free < n+diskLeft {
		return errDiskFull
	}
	return nil
}

// blobFolder is one folder of blobs. Blobs of several become durable at once.
type blobFolder struct {
	// mu keeps an upload and a deletion of the same blob apart.
	mu sync.Mutex
	// named is whether the folder's own name is known to be durable; guarded by mu.
	named bool
}

func (b *blobFiles) folder(hash string) *blobFolder {
	first, _ := strconv.ParseUint(hash[:2], 16, 8) // hex that was checked
	return &b.folders[first]
}

func (b *blobFiles) temp() string { return filepath.Join(b.dir, "tmp") }

func (b *blobFiles) path(hash string) string { return filepath.Join(b.dir, hash[:2], hash) }

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
func (b *blobFiles) receive(body io.Reader, limit int64) (incoming, error) {
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

// discard removes the temporary file of an upload, which has another name once it is
// stored.
func (b *blobFiles) discard(in incoming) {
	if in.file != "" {
		_ = os.Remove(in.file)
	}
}

// spool writes at most limit bytes to a temporary file, made durable.
func (b *blobFiles) spool(body io.Reader, limit int64) (in incoming, err error) {
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
	if errors.Is(err, syscall.ENOSPC) {
		return incoming{}, errDiskFull
	}
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
func (b *blobFiles) moveIn(in incoming) error {
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
