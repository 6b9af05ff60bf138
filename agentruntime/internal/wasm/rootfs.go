package wasm

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	wasisys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// writeBudget bounds what one call may write into its directories, so that a tool
// cannot fill the disk. A new file or directory counts as a block.
const (
	writeBudget = 64 << 20
	blockBytes  = 4096
)

// rootFS is a directory of the host from the view of a tool. All access is through
// os.Root, so "..", absolute paths and symbolic links cannot lead out of it
// (AP-13.2.1). Links cannot be made. Times, inodes and owners are hidden, because
// the result of a call must depend only on its input.
type rootFS struct {
	wasisys.UnimplementedFS
	root     *os.Root
	readOnly bool
	budget   *atomic.Int64 // bytes that the call may still write
}

var _ wasisys.FS = (*rootFS)(nil)

// local makes a path of the guest relative; os.Root does the rest.
func local(path string) string {
	if path = strings.TrimLeft(path, "/"); path == "" {
		return "."
	}
	return path
}

// errno converts an error to its number. It hides errors without one, such as that
// of a path that leaves the directory.
func errno(err error) wasisys.Errno {
	var number syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &number):
		return wasisys.UnwrapOSError(number)
	case errors.Is(err, fs.ErrNotExist):
		return wasisys.ENOENT
	case errors.Is(err, fs.ErrExist):
		return wasisys.EEXIST
	case errors.Is(err, fs.ErrClosed):
		return wasisys.EBADF
	}

	return wasisys.EPERM
}

// spend deducts n bytes from the budget.
func (f *rootFS) spend(n int64) wasisys.Errno {
	switch {
	case f.readOnly:
		return wasisys.EROFS
	case f.budget.Add(-n) < 0:
		return wasisys.EIO
	}
	return 0
}

const writeFlags = wasisys.O_RDWR | wasisys.O_WRONLY | wasisys.O_CREAT | wasisys.O_TRUNC | wasisys.O_APPEND

// OpenFile opens regular files and directories only.
func (f *rootFS) OpenFile(path string, flag wasisys.Oflag, _ fs.FileMode) (wasisys.File, wasisys.Errno) {
	if f.readOnly && flag&writeFlags != 0 {
		return nil, wasisys.EROFS
	}
	path = local(path)
	info, err := f.root.Lstat(path)
	if flag&wasisys.O_NOFOLLOW != 0 && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, wasisys.ELOOP
	}
	if flag&wasisys.O_CREAT != 0 && err != nil {
		if e := f.spend(blockBytes); e != 0 {
			return nil, e
		}
	}

	// O_NONBLOCK avoids waiting for the other end of a FIFO.
	file, err := f.root.OpenFile(path, hostFlags(flag)|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, errno(err)
	}

	info, err = file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular() && !info.IsDir():
		err = syscall.EPERM
	case flag&wasisys.O_DIRECTORY != 0 && !info.IsDir():
		err = syscall.ENOTDIR
	}

	if err != nil {
		file.Close()
		return nil, errno(err)
	}
	return &rootFile{fs: f, file: file, dir: info.IsDir(), appends: flag&wasisys.O_APPEND != 0}, 0
}

// hostFlags leaves out O_APPEND: rootFile implements it, so that it can be changed
// later.
func hostFlags(flag wasisys.Oflag) int {
	out := os.O_RDONLY
	switch {
	case flag&wasisys.O_RDWR != 0:
		out = os.O_RDWR
	case flag&wasisys.O_WRONLY != 0:
		out = os.O_WRONLY
	}

	for from, to := range map[wasisys.Oflag]int{
		wasisys.O_CREAT: os.O_CREATE, wasisys.O_EXCL: os.O_EXCL, wasisys.O_TRUNC: os.O_TRUNC,
	} {
		if flag&from != 0 {
			out |= to
		}
	}
	return out
}

func (f *rootFS) Lstat(path string) (sys.Stat_t, wasisys.Errno) {
	info, err := f.root.Lstat(local(path))
	return stat(info, err)
}

func (f *rootFS) Stat(path string) (sys.Stat_t, wasisys.Errno) {
	info, err := f.root.Stat(local(path))
	return stat(info, err)
}

func stat(info fs.FileInfo, err error) (sys.Stat_t, wasisys.Errno) {
	if err != nil {
		return sys.Stat_t{}, errno(err)
	}
	s := sys.Stat_t{Mode: info.Mode(), Nlink: 1}
	if !info.IsDir() { // the size of a directory depends on its file system
		s.Size = info.Size()
	}
	return s, 0
}

func (f *rootFS) Mkdir(path string, _ fs.FileMode) wasisys.Errno {
	if e := f.spend(blockBytes); e != 0 {
		return e
	}
	return errno(f.root.Mkdir(local(path), 0o700))
}

func (f *rootFS) Rename(from, to string) wasisys.Errno {
	if f.readOnly {
		return wasisys.EROFS
	}
	return errno(f.root.Rename(local(from), local(to)))
}

func (f *rootFS) Rmdir(path string) wasisys.Errno  { return f.remove(path, true) }
func (f *rootFS) Unlink(path string) wasisys.Errno { return f.remove(path, false) }

func (f *rootFS) remove(path string, dir bool) wasisys.Errno {
	if f.readOnly {
		return wasisys.EROFS
	}

	info, err := f.root.Lstat(local(path))
	switch {
	case err != nil:
		return errno(err)
	case dir && !info.IsDir():
		return wasisys.ENOTDIR
	case !dir && info.IsDir():
		return wasisys.EISDIR
	}
	return errno(f.root.Remove(local(path)))
}

func (f *rootFS) Readlink(path string) (string, wasisys.Errno) {
	target, err := f.root.Readlink(local(path))
	return target, errno(err)
}
