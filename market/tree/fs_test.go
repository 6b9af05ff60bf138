package tree

import (
	"io/fs"
	"testing/fstest"
	"time"
)

// emptyFolder is a folder with nothing in it.
type emptyFolder struct{}

func (emptyFolder) Name() string               { return "" }
func (emptyFolder) IsDir() bool                { return true }
func (emptyFolder) Type() fs.FileMode          { return fs.ModeDir }
func (emptyFolder) Info() (fs.FileInfo, error) { return emptyFolder{}, nil }
func (emptyFolder) Size() int64                { return 0 }
func (emptyFolder) Mode() fs.FileMode          { return fs.ModeDir | 0o755 }
func (emptyFolder) ModTime() time.Time         { return time.Time{} }
func (emptyFolder) Sys() any                   { return nil }

// wrongSize says another size of its files than they have.
type wrongSize struct {
	fstest.MapFS
	size int64
}

func (w wrongSize) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := w.MapFS.ReadDir(name)
	for i, d := range list {
		list[i] = sized{d, w.size}
	}
	return list, err
}

type sized struct {
	fs.DirEntry
	size int64
}

func (s sized) Info() (fs.FileInfo, error) {
	info, err := s.DirEntry.Info()
	return sizedInfo{info, s.size}, err
}

type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (s sizedInfo) Size() int64 { return s.size }

// latin has a file whose name is not UTF-8.
type latin struct{ fstest.MapFS }

func (latin) ReadDir(string) ([]fs.DirEntry, error) {
	list, err := fstest.MapFS{"f": {}}.ReadDir(".")
	return []fs.DirEntry{renamed{list[0]}}, err
}

type renamed struct{ fs.DirEntry }

func (renamed) Name() string { return "\xe9" }
