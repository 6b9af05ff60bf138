// Package packs keeps packed trees in a folder, so that what an upload needs is there after a
// restart, whatever became of the files.
package packs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/tree"
)

// keep is how long a pack is kept after it was made or read last: longer than any purchase
// waits for its upload.
const keep = 7 * 24 * time.Hour

// maxIndex bounds an index, in bytes.
const maxIndex = 64 << 10

// Store has packs by the digests of their trees. The parts of one are one file; its index
// says where each ends.
type Store struct{ dir string }

// New makes a store in a folder, which is made with the first pack.
func New(dir string) *Store { return &Store{dir: dir} }

type index struct {
	Tree tree.Summary `json:"tree"`
	Ends []int64      `json:"ends"` // of the parts, in bytes
}

// Add keeps what pack gives away, and removes packs that nobody has read for a week. It is
// durable when Add returns.
func (s *Store) Add(pack func(put func(part []byte) error) (tree.Summary, error)) (kept tree.Summary, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return kept, err
	}
	s.prune()

	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return kept, err
	}
	defer func() {
		f.Close()
		os.Remove(f.Name()) // fails once it was renamed
	}()

	var in index
	end := int64(0)
	in.Tree, err = pack(func(part []byte) error {
		n, err := f.Write(part)
		end += int64(n)
		in.Ends = append(in.Ends, end)
		return err
	})
	if err != nil {
		return kept, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return kept, fmt.Errorf("keep the packed files: %w", err)
	}
	doc, err := json.Marshal(in)
	if err != nil {
		return kept, err
	}

	name := s.name(in.Tree.Digest)
	if err := os.Rename(f.Name(), name); err != nil {
		return kept, err
	}
	if err := writeFile(name+".json", doc); err != nil {
		return kept, fmt.Errorf("keep the packed files: %w", err)
	}
	return in.Tree, nil
}

// writeFile replaces a file by one that is whole, whatever happens.
func writeFile(name string, doc []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	_, err = f.Write(doc)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func (s *Store) name(digest hashing.Digest) string { return filepath.Join(s.dir, digest.Hex()) }

// Summary is what is known of a tree. The error is fs.ErrNotExist if it is not here.
func (s *Store) Summary(digest hashing.Digest) (tree.Summary, error) {
	in, err := readIndex(s.name(digest) + ".json")
	if err == nil {
		_, err = os.Stat(s.name(digest))
	}
	return in.Tree, err
}

// Part reads a part of a tree. The error is fs.ErrNotExist if the tree is not here.
func (s *Store) Part(digest hashing.Digest, i int) ([]byte, error) {
	name := s.name(digest)
	in, err := readIndex(name + ".json")
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(in.Ends) {
		return nil, fmt.Errorf("part %d of %d: %w", i+1, len(in.Ends), fs.ErrNotExist)
	}
	from := int64(0)
	if i > 0 {
		from = in.Ends[i-1]
	}
	size := in.Ends[i] - from
	if size <= 0 || size > tree.MaxChunkBytes {
		return nil, fmt.Errorf("part %d has %d bytes", i+1, size)
	}

	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part := make([]byte, size)
	if _, err := f.ReadAt(part, from); err != nil {
		return nil, fmt.Errorf("read part %d: %w", i+1, err)
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // it is in use
	return part, nil
}

func readIndex(name string) (in index, err error) {
	f, err := os.Open(name)
	if err != nil {
		return in, err
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err == nil && len(doc) > maxIndex {
		err = errors.New("too long")
	}
	if err == nil {
		err = hashing.Unmarshal(doc, &in)
	}
	if err != nil {
		return in, fmt.Errorf("index of packed files: %w", err)
	}
	return in, nil
}

// prune removes packs that were not used for long, and what a crash left of one.
func (s *Store) prune() {
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, d := range found {
		name := filepath.Join(s.dir, d.Name())
		parts, isIndex := name, filepath.Ext(name) == ".json"
		if isIndex {
			parts = name[:len(name)-len(".json")]
		}
		info, err := os.Stat(parts)
		if isIndex && errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) > keep {
			_ = os.Remove(name)
		}
	}
}
