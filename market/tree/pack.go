package tree

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// Summary is what is known of a tree that was packed.
type Summary struct {
	Digest  hashing.Digest `json:"digest"`
	Size    int64          `json:"size"`    // bytes of the tar stream
	Entries int64          `json:"entries"` // files, folders and links
	Stored  int64          `json:"stored"`  // bytes of all chunks
}

// Draft is a manifest as large as the tree's, whose digests are still to be filled in:
// they depend on the provider.
func (s Summary) Draft() *Manifest {
	m := &Manifest{Size: s.Size, Entries: s.Entries}
	for range (s.Size + PartBytes - 1) / PartBytes {
		m.Chunks = append(m.Chunks, Chunk{Size: MaxChunkBytes})
	}
	return m
}

// Walk visits what is packed in lexical order, as [fs.WalkDir] does, without the top.
type Walk func(visit func(name string, d fs.DirEntry) error) error

// Pack packs files, and gives each part to put as a member of a gzip file, in order; put
// must not keep the bytes. The same files are always the same tree: no times and no owners
// travel. A file is executable if it is on disk, or begins with "#!". packed, which may be
// nil, is told how many entries and bytes are done.
//
// What cannot travel is an *[EntryError], too much of it a *[LimitError].
func Pack(fsys fs.FS, walk Walk, put func(part []byte) error, packed func(entries, size int64)) (Summary, error) {
	stored := int64(0)
	parts, err := newSplitter(func(part []byte) error {
		stored += int64(len(part)) + boxOverhead
		return put(part)
	})
	if err != nil {
		return Summary{}, err
	}
	p := &packer{fsys: fsys, list: newListing(), parts: parts, tw: tar.NewWriter(parts), buf: make([]byte, 256<<10)}

	err = walk(func(name string, d fs.DirEntry) error {
		err := p.add(name, d)
		if packed != nil && err == nil {
			packed(p.list.n, parts.size)
		}
		return err
	})
	if err == nil {
		err = p.tw.Close()
	}
	if err == nil {
		err = parts.end()
	}
	if err != nil {
		return Summary{}, err
	}
	if p.list.n == 0 {
		return Summary{}, &EntryError{".", "no files are in it"}
	}

	return Summary{Digest: p.list.digest(), Size: parts.size, Entries: p.list.n, Stored: stored}, nil
}

type packer struct {
	fsys  fs.FS
	list  *listing
	parts *splitter
	tw    *tar.Writer
	buf   []byte
}

func (p *packer) add(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if err := p.list.enter(name, info.IsDir()); err != nil {
		return err
	}

	h := &tar.Header{Name: name, Mode: 0o644, Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, name+"/", 0o755
		p.list.folder(name)
		return p.tw.WriteHeader(h)
	case info.Mode().IsRegular():
		return p.addFile(h, info)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = fs.ReadLink(p.fsys, name); err != nil {
			return err
		}
		h.Linkname = shortest(h.Linkname)
		if err := checkLink(name, h.Linkname); err != nil {
			return err
		}
		p.list.content(kindLink, name, int64(len(h.Linkname)), hashing.Bytes([]byte(h.Linkname)))
		return p.tw.WriteHeader(h)
	}

	return &EntryError{name, "is a device, a socket or a pipe; only files, folders and links travel"}
}

func (p *packer) addFile(h *tar.Header, info fs.FileInfo) error {
	if p.parts.size+info.Size() > MaxBytes {
		return &LimitError{"bytes", MaxBytes}
	}
	f, err := p.fsys.Open(h.Name)
	if err != nil {
		return err
	}
	defer f.Close()

	head := make([]byte, min(info.Size(), 2))
	if _, err := io.ReadFull(f, head); err != nil {
		return changed(h.Name, err)
	}
	kind := byte(kindFile)
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if info.Mode()&0o100 != 0 || string(head) == "#!" {
		kind, h.Mode = kindExecutable, 0o755
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}

	// One byte more than it had tells that it grows.
	sum := sha256.New()
	body := io.LimitReader(io.MultiReader(bytes.NewReader(head), f), info.Size()+1)
	n, err := io.CopyBuffer(copyTo{p.tw, sum}, body, p.buf)
	switch {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && n != info.Size():
		return changed(h.Name, io.ErrUnexpectedEOF)
	case err != nil:
		return fmt.Errorf("pack %q: %w", h.Name, err)
	}
	p.list.content(kind, h.Name, n, hashing.Digest(sum.Sum(nil)))
	return nil
}

// changed says that a file is not as long as its folder said.
func changed(name string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &EntryError{name, "it changed while it was read; try again"}
	}
	return fmt.Errorf("pack %q: %w", name, err)
}
