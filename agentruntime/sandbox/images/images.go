// Package images stores the root file systems that an operator registered for
// sandbox jobs. An image is identified by the digest of its manifest, which lists
// every path with its kind, mode and hash. Properties that the manifest does not
// list (owners, times, extended attributes) are the same in every image, so one
// digest always means exactly one tree.
package images

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/hashing"
)

// Limits of one image.
const (
	maxEntries = 500_000
	maxBytes   = 16 << 30 // of all files together, unpacked

	maxName          = 4096
	maxManifestBytes = 256 << 20
)

// Errors of this package.
var (
	// ErrNotRegistered: no image has this digest.
	ErrNotRegistered = errors.New("image is not registered")
	// ErrDamaged: the stored image differs from the registered one.
	ErrDamaged = errors.New("image is damaged")
	// ErrBadImage: the tree or archive cannot be registered.
	ErrBadImage = errors.New("bad image")
)

// Image is a registered image.
type Image struct {
	Digest hashing.Digest
	Files  int   // files, directories and links
	Bytes  int64 // of all files
	Added  time.Time
}

const (
	rootName     = "root"
	manifestName = "manifest.json"
	incoming     = ".adding-"
	lockName     = ".lock"
)

// Add registers a directory tree or a tar archive in the store dir, which it makes
// if it is missing. The archive may be plain or gzip and has the paths of a root
// file system, as written by `docker export`. Trees are copied, so later changes of
// from do not matter. Registering an image again is not an error.
//
// Files become readable by everybody and keep only their executable bit. A device,
// a socket or a path that leaves the tree is ErrBadImage. Everything below dev,
// proc, sys, tmp and artifacts is left out, because the sandbox provides its own.
func Add(dir, from string) (hashing.Digest, error) {
	unlock, err := lock(dir)
	if err != nil {
		return hashing.Digest{}, fmt.Errorf("add image: %w", err)
	}
	defer unlock()
	d, err := add(dir, from)
	if err != nil {
		return hashing.Digest{}, fmt.Errorf("add image: %w", err)
	}
	return d, nil
}

func add(dir, from string) (hashing.Digest, error) {
	if err := removeIncoming(dir); err != nil {
		return hashing.Digest{}, err
	}
	work := filepath.Join(dir, incoming+rand.Text())
	tree := filepath.Join(work, rootName)
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return hashing.Digest{}, err
	}
	defer os.RemoveAll(work)

	if err := fill(tree, from); err != nil {
		return hashing.Digest{}, err
	}
	m, err := readTree(tree)
	if err != nil {
		return hashing.Digest{}, err
	}
	if len(m.Entries) == 0 {
		return hashing.Digest{}, fmt.Errorf("%w: it is empty", ErrBadImage)
	}

	doc, err := m.canonical()
	if err != nil {
		return hashing.Digest{}, err
	}
	if len(doc) > maxManifestBytes {
		return hashing.Digest{}, fmt.Errorf("%w: its manifest has more than %d bytes", ErrBadImage, maxManifestBytes)
	}
	if err := os.WriteFile(filepath.Join(work, manifestName), doc, 0o644); err != nil {
		return hashing.Digest{}, err
	}

	d := hashing.Bytes(doc)
	if _, err := os.Stat(filepath.Join(dir, d.Hex())); err == nil {
		return d, nil
	}
	return d, os.Rename(work, filepath.Join(dir, d.Hex()))
}

// lock makes the store and excludes concurrent calls of Add.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}

	return func() { f.Close() }, nil
}

// removeIncoming removes the remains of an interrupted Add.
func removeIncoming(dir string) error {
	remains, err := filepath.Glob(filepath.Join(dir, incoming+"*"))
	if err != nil {
		return err
	}
	for _, path := range remains {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// List returns the images of a store, the newest first. A missing store is empty.
func List(dir string) ([]Image, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}

	var all []Image
	for _, e := range entries {
		d, err := hashing.ParseDigest("sha256:" + e.Name())
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		image, err := describe(dir, d)
		if err != nil {
			return nil, fmt.Errorf("list images: %s: %w", d, err)
		}
		all = append(all, image)
	}

	slices.SortFunc(all, func(a, b Image) int { return b.Added.Compare(a.Added) })
	return all, nil
}

func describe(dir string, d hashing.Digest) (Image, error) {
	m, err := readManifest(dir, d)
	if err != nil {
		return Image{}, err
	}
	info, err := os.Stat(filepath.Join(dir, d.Hex(), manifestName))
	if err != nil {
		return Image{}, err
	}
	image := Image{Digest: d, Files: len(m.Entries), Added: info.ModTime()}
	for _, e := range m.Entries {
		image.Bytes += e.Size
	}
	return image, nil
}

// Open returns the absolute path of an image's root. It checks that the manifest
// matches the digest and that the tree exists, which takes milliseconds; it does
// not read the files of the tree.
func Open(dir string, d hashing.Digest) (root string, err error) {
	doc, err := manifestBytes(dir, d)
	if err != nil {
		return "", fmt.Errorf("open image %s: %w", d, err)
	}
	if hashing.Bytes(doc) != d {
		return "", fmt.Errorf("open image %s: %w: its manifest was changed", d, ErrDamaged)
	}

	root, err = filepath.Abs(filepath.Join(dir, d.Hex(), rootName))
	if err != nil {
		return "", fmt.Errorf("open image %s: %w", d, err)
	}
	if info, err := os.Lstat(root); err != nil || !info.IsDir() {
		return "", fmt.Errorf("open image %s: %w: its tree is missing", d, ErrDamaged)
	}

	return root, nil
}
