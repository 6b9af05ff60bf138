package wasm

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"

	wasisys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// maxDirEntries bounds the entries of a listing in memory.
const maxDirEntries = 10_000

// rootFile is an open file or directory of a rootFS.
type rootFile struct {
	wasisys.UnimplementedFile
	fs      *rootFS
	file    *os.File
	dir     bool
	appends bool
	listed  []wasisys.Dirent // entries still to be returned by Readdir; nil before its first call
}

var _ wasisys.File = (*rootFile)(nil)

func (f *rootFile) IsDir() (bool, wasisys.Errno)       { return f.dir, 0 }
func (f *rootFile) IsAppend() bool                     { return f.appends }
func (f *rootFile) Dev() (uint64, wasisys.Errno)       { return 0, 0 }
func (f *rootFile) Ino() (sys.Inode, wasisys.Errno)    { return 0, 0 }
func (f *rootFile) Sync() wasisys.Errno                { return errno(f.file.Sync()) }
func (f *rootFile) Datasync() wasisys.Errno            { return errno(f.file.Sync()) }
func (f *rootFile) Close() wasisys.Errno               { return errno(f.file.Close()) }
func (f *rootFile) Utimens(int64, int64) wasisys.Errno { return 0 } // times are hidden

func (f *rootFile) SetAppend(enable bool) wasisys.Errno {
	f.appends = enable
	return 0
}

func (f *rootFile) Stat() (sys.Stat_t, wasisys.Errno) {
	info, err := f.file.Stat()
	return stat(info, err)
}

func (f *rootFile) Read(buf []byte) (int, wasisys.Errno) {
	if f.dir {
		return 0, wasisys.EISDIR
	}
	return count(f.file.Read(buf))
}

func (f *rootFile) Pread(buf []byte, off int64) (int, wasisys.Errno) {
	if f.dir {
		return 0, wasisys.EISDIR
	}
	return count(f.file.ReadAt(buf, off))
}

// count converts the end of a file to a read of zero bytes.
func count(n int, err error) (int, wasisys.Errno) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, errno(err)
}

// fileOffset is another name for int64: go vet expects a method Seek(int64, int) to
// have the signature of io.Seeker, but wazero's interface returns an Errno.
type fileOffset = int64

func (f *rootFile) Seek(offset fileOffset, whence int) (fileOffset, wasisys.Errno) {
	if f.dir {
		if offset != 0 || whence != io.SeekStart {
			return 0, wasisys.EINVAL
		}
		f.listed = nil // rewind
	}
	n, err := f.file.Seek(offset, whence)
	return n, errno(err)
}

// Readdir returns the entries sorted by name, because the host's order depends on
// the file system.
func (f *rootFile) Readdir(n int) ([]wasisys.Dirent, wasisys.Errno) {
	if !f.dir {
		return nil, wasisys.ENOTDIR
	}
	if f.listed == nil {
		entries, err := f.file.ReadDir(maxDirEntries)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, errno(err)
		}
		f.listed = dirents(entries)
	}

	if n <= 0 || n > len(f.listed) {
		n = len(f.listed)
	}
	out := f.listed[:n]
	f.listed = f.listed[n:]
	return out, 0
}

func dirents(entries []fs.DirEntry) []wasisys.Dirent {
	out := make([]wasisys.Dirent, 0, len(entries))
	for _, e := range entries {
		out = append(out, wasisys.Dirent{Name: e.Name(), Type: e.Type()})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (f *rootFile) Write(buf []byte) (int, wasisys.Errno) {
	if e := f.fs.spend(int64(len(buf))); e != 0 {
		return 0, e
	}
	if f.appends {
		if _, err := f.file.Seek(0, io.SeekEnd); err != nil {
			return 0, errno(err)
		}
	}
	return count(f.file.Write(buf))
}

func (f *rootFile) Pwrite(buf []byte, off int64) (int, wasisys.Errno) {
	if e := f.fs.spend(int64(len(buf))); e != 0 {
		return 0, e
	}
	return count(f.file.WriteAt(buf, off))
}

// Truncate spends budget for the new size, because holes may be filled later.
func (f *rootFile) Truncate(size int64) wasisys.Errno {
	if size < 0 {
		return wasisys.EINVAL
	}
	if e := f.fs.spend(size); e != 0 {
		return e
	}
	return errno(f.file.Truncate(size))
}
