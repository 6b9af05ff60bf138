package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is an flock, which the kernel releases when the process ends in any way.
// The file is never removed: otherwise two processes could each lock their own file of
// that name.
type fileLock struct{ f *os.File }

// lockFile takes a lock that excludes all others, or if it is shared those that are not.
// Only the one holder of an exclusive lock is named in it.
func lockFile(path string, shared bool) (*fileLock, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, &LockedError{Path: path, PID: readPID(f)}
	}
	switch {
	case err != nil:
	case shared:
		err = f.Truncate(0)
	default:
		err = writePID(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &fileLock{f}, nil
}

// turnInterval is how often a process that opens a file looks whether its turn has come.
const turnInterval = 10 * time.Millisecond

// lockTurn waits for an exclusive lock until ctx ends.
func lockTurn(ctx context.Context, path string) (*fileLock, error) {
	tick := time.NewTicker(turnInterval)
	defer tick.Stop()

	for {
		l, err := lockFile(path, false)
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// writePID records the holder for the error message of the next opener.
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

func (l *fileLock) release() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	return nil
}
