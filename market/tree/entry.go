package tree

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// Kinds of entries, as the digest of a tree names them.
const (
	kindFolder     = 'd'
	kindFile       = 'f'
	kindExecutable = 'x'
	kindLink       = 'l'
)

// listing is the list of a tree's entries as they come. It takes them in their one order
// and below folders that it knows, and makes the tree's digest of them.
//
// The digest is the SHA-256 of "lightwork/tree/v1" and a NUL, and of one line for each
// entry: kind, size, hex SHA-256 and path, with a space between them and a NUL at the end.
// Size and SHA-256 are those of a file's content and of a link's target; a folder is "d",
// a space, its path and a NUL. Entries are in the order of their paths, element by element.
type listing struct {
	sum     hash.Hash
	folders []string // that the last entry is in or is, each below the one before
	last    string
	n       int64
}

func newListing() *listing {
	l := &listing{sum: sha256.New()}
	l.sum.Write([]byte("lightwork/tree/v1\x00"))
	return l
}

// enter checks the name and the place of the next entry.
func (l *listing) enter(name string, folder bool) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if l.n++; l.n > MaxEntries {
		return &LimitError{"files, folders and links", MaxEntries}
	}
	if l.n > 1 && !comesBefore(l.last, name) {
		return &EntryError{name, "is there twice, or not in the order of the paths"}
	}
	l.last = name

	for len(l.folders) > 0 && !strings.HasPrefix(name, l.folders[len(l.folders)-1]+"/") {
		l.folders = l.folders[:len(l.folders)-1]
	}
	in := "."
	if len(l.folders) > 0 {
		in = l.folders[len(l.folders)-1]
	}
	if path.Dir(name) != in {
		return &EntryError{name, "its folder is missing"}
	}
	if folder {
		l.folders = append(l.folders, name)
	}

	return nil
}

func (l *listing) folder(name string) { fmt.Fprintf(l.sum, "%c %s\x00", kindFolder, name) }

func (l *listing) content(kind byte, name string, size int64, digest hashing.Digest) {
	fmt.Fprintf(l.sum, "%c %d %s %s\x00", kind, size, digest.Hex(), name)
}

func (l *listing) digest() hashing.Digest { return hashing.Digest(l.sum.Sum(nil)) }

// comesBefore compares paths element by element: all of a folder comes before its
// neighbours, whatever characters their names have.
func comesBefore(a, b string) bool {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x != y:
			return x < y
		case !moreA || !moreB:
			return !moreA && moreB
		}
		a, b = restA, restB
	}
}

// CheckName wants a clean relative path. fs.ValidPath allows no "..", no empty element,
// and UTF-8 only. The error is an *[EntryError].
func CheckName(name string) error {
	switch {
	case len(name) > MaxNameBytes:
		return &EntryError{name, fmt.Sprintf("its path has %d bytes, at most %d travel", len(name), MaxNameBytes)}
	case !utf8.ValidString(name):
		return &EntryError{name, "its name is not UTF-8"}
	case !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0):
		return &EntryError{name, "its path is empty, absolute, not clean, or leads out of the folder"}
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > maxElement {
			return &EntryError{name, fmt.Sprintf("a name in its path has %d bytes, at most %d travel", len(element), maxElement)}
		}
	}
	return nil
}

// checkLink wants a clean relative target in the tree. A clean path goes up before it goes
// down, and goes up from a folder that is none of the tree's links: so it cannot leave the
// tree by way of another link.
func checkLink(name, target string) error {
	switch {
	case target == "" || len(target) > MaxNameBytes || !utf8.ValidString(target) || strings.ContainsRune(target, 0):
		return &EntryError{name, fmt.Sprintf("its target is empty, not UTF-8, or longer than %d bytes", MaxNameBytes)}
	case path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(name), target)):
		return &EntryError{name, fmt.Sprintf("the link leads out of the folder, to %.200q", target)}
	case path.Clean(target) != target:
		return &EntryError{name, fmt.Sprintf("the link's target %.200q is not the shortest form", target)}
	}
	return nil
}

// shortest is a link's target in its shortest form. One that goes up after it went down is
// left as it is, since what it went down through may be a link.
func shortest(target string) string {
	down := false
	for element := range strings.SplitSeq(target, "/") {
		if element == ".." && down {
			return target
		}
		down = down || element != ".." && element != "." && element != ""
	}
	return path.Clean(target)
}
