//go:build lnd

package crashmatrix

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/store"
)

// walWriteLock is the byte of SQLite's -shm file that a writer locks (the WAL's
// file format, section 2.3.2).
const walWriteLock = 120

// stall makes every commit of the role wait, as a disk that hangs would, until
// the function it returns is called. SQLite itself gives up after five seconds,
// and the program then tries again.
func (w *world) stall(t *testing.T, role string) (release func()) {
	f, err := os.OpenFile(filepath.Join(w.dataDir(role), store.FileName+"-shm"), os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: walWriteLock, Len: 1}
	for unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock) != nil { // the node is writing right now
		time.Sleep(time.Millisecond)
	}
	return func() { f.Close() }
}
