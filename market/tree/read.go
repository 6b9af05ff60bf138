package tree

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

// Check reads the parts of a tree, one after the other, to their end, and returns nil if
// they are the tree that the manifest commits to: every entry may be unpacked into a
// folder, none leads out of it, and they are as many and as large as the manifest says.
// It reads no more than that, and keeps nothing.
//
// Errors are *[EntryError], *[LimitError], or wrap [ErrCommitment].
func Check(parts io.Reader, m Manifest, g Grant) error {
	if err := m.Check(); err != nil {
		return err
	}
	digest, entries, size, err := read(parts, m.Size)
	switch {
	case err != nil:
		return err
	case size != m.Size:
		return fmt.Errorf("%w: it has %d bytes, and %d were named", ErrCommitment, size, m.Size)
	case entries != m.Entries:
		return fmt.Errorf("%w: it has %d files, folders and links, and %d were named", ErrCommitment, entries, m.Entries)
	case digest != g.Digest, g.Commit() != m.Commitment:
		return ErrCommitment
	}
	return nil
}

// read lists what the parts have, of at most so many bytes.
func read(parts io.Reader, most int64) (digest hashing.Digest, entries, size int64, err error) {
	zr, err := gzip.NewReader(parts)
	if err != nil {
		return digest, 0, 0, fmt.Errorf("read the tree: %w", err)
	}
	counted := &io.LimitedReader{R: zr, N: most + 1}
	list, tr := newListing(), tar.NewReader(counted)
	buf := make([]byte, 64<<10)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if counted.N <= 0 {
			return digest, 0, 0, &LimitError{"bytes", most}
		}
		if err != nil {
			return digest, 0, 0, fmt.Errorf("read the tree: %w", err)
		}
		if err := readEntry(list, h, tr, buf); err != nil {
			if counted.N <= 0 {
				err = &LimitError{"bytes", most}
			}
			return digest, 0, 0, err
		}
	}

	// Nothing may follow that another reader could take for files.
	rest, err := io.Copy(io.Discard, counted)
	switch {
	case counted.N <= 0:
		return digest, 0, 0, &LimitError{"bytes", most}
	case err != nil:
		return digest, 0, 0, fmt.Errorf("read the tree: %w", err)
	case rest > 0:
		return digest, 0, 0, &EntryError{".", "something follows its end"}
	}
	return list.digest(), list.n, most + 1 - counted.N, nil
}

func readEntry(list *listing, h *tar.Header, body io.Reader, buf []byte) error {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if err := list.enter(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	for record := range h.PAXRecords { // no sparse files, and no names that others read otherwise
		if record != "path" && record != "linkpath" {
			return &EntryError{name, fmt.Sprintf("its header has a record %.50q", record)}
		}
	}

	switch h.Typeflag {
	case tar.TypeDir:
		list.folder(name)
		return nil
	case tar.TypeSymlink:
		if err := checkLink(name, h.Linkname); err != nil {
			return err
		}
		list.content(kindLink, name, int64(len(h.Linkname)), hashing.Bytes([]byte(h.Linkname)))
		return nil
	case tar.TypeReg:
		kind, sum := byte(kindFile), sha256.New()
		if h.Mode&0o100 != 0 {
			kind = kindExecutable
		}
		n, err := io.CopyBuffer(sum, struct{ io.Reader }{body}, buf)
		if err != nil {
			return fmt.Errorf("read %.200q: %w", name, err)
		}
		list.content(kind, name, n, hashing.Digest(sum.Sum(nil)))
		return nil
	}

	return &EntryError{name, "is not a file, a folder or a link"}
}
