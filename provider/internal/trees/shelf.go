package trees

import (
	"bufio"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/market/tree"
)

// shelf keeps trees after their jobs, so that a buyer need not send one again as long as it
// has not changed. What is kept is the newest, up to a number of bytes, for a week.
type shelf struct {
	dir  string
	most int64 // bytes
}

const shelfLife = 7 * 24 * time.Hour

// name is that of a tree that this buyer has sent. Another buyer has no use of it: who only
// knows the digest of a tree must not get at its files.
func (s shelf) name(buyer string, g tree.Grant) string {
	return filepath.Join(s.dir, buyer+"-"+g.Digest.Hex())
}

// take makes a tree that the buyer has sent before the given file, if there is one that is
// still what a request commits to.
func (s shelf) take(buyer string, m tree.Manifest, g tree.Grant, to string) bool {
	name := s.name(buyer, g)
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if tree.Check(bufio.NewReader(f), m, g) != nil || os.Link(name, to) != nil {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(name, now, now) // it is in use
	return true
}

// put keeps a file with a tree for the buyer's next order, in the place of older ones.
func (s shelf) put(buyer string, g tree.Grant, from string) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := os.Link(from, s.name(buyer, g)); err != nil && !os.IsExist(err) {
		return err
	}
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}

	var all []fs.FileInfo
	for _, d := range found {
		if info, err := d.Info(); err == nil {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	sum := int64(0)
	for _, info := range all {
		if sum += info.Size(); sum > s.most || time.Since(info.ModTime()) > shelfLife {
			_ = os.Remove(filepath.Join(s.dir, info.Name()))
		}
	}

	return nil
}
