// Package lease lets one process at a time work on a thing with a name. A lease ends with
// its process, however that ends: the kernel holds it, in a file of its own.
package lease

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHeld is wrapped by [*HeldError].
var ErrHeld = errors.New("another process works on it")

// HeldError says which process has the lease.
type HeldError struct {
	Name string
	PID  int // 0 if it has not written it yet
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: %v", e.Name, ErrHeld)
	}
	return fmt.Sprintf("%s: %v, pid %d", e.Name, ErrHeld, e.PID)
}

// Is reports that a HeldError is an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Dir has a file for each lease that is held, and for those of killed processes until
// the next has the same name.
type Dir string

// Lease is held until Release, or until the process ends.
type Lease struct {
	f    *os.File
	path string
}

// Take takes the lease of a name, which is one element of a path; *HeldError if another
// has it, in this process too.
func (d Dir) Take(name string) (*Lease, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of leases: %w", err)
	}
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}

	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("take lease: %w", err)
		}
		// Of the open file, not of the process: two goroutines exclude each other too.
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, whole(unix.F_WRLCK))
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			defer f.Close()
			return nil, &HeldError{Name: name, PID: readPID(f)}
		}
		current := false
		if err == nil {
			current, err = isAt(f, path)
		}
		if err == nil && current {
			err = writePID(f)
		}
		switch {
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("take lease of %s: %w", name, err)
		case current:
			return &Lease{f: f, path: path}, nil
		}
		f.Close() // whoever had it has removed this file meanwhile
	}
}

// Holder is the process that has the lease of a name; held is false if none has it.
func (d Dir) Holder(name string) (pid int, held bool, err error) {
	path, err := d.path(name)
	if err != nil {
		return 0, false, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look at lease: %w", err)
	}

	defer f.Close()
	l := whole(unix.F_WRLCK)
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, l); err != nil {
		return 0, false, fmt.Errorf("look at lease of %s: %w", name, err)
	}
	if l.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return readPID(f), true, nil
}

func (d Dir) path(name string) (string, error) {
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("a lease cannot have the name %q", name)
	}
	return filepath.Join(string(d), name), nil
}

// Release gives the lease back, and removes its file while nobody else can have it.
func (l *Lease) Release() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(err, l.f.Close()); err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// isAt reports whether a file is still what its path names.
func isAt(f *os.File, path string) (bool, error) {
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, there), err
}

func whole(kind int16) *unix.Flock_t { return &unix.Flock_t{Type: kind, Whence: io.SeekStart} }

// writePID says whom to ask.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
