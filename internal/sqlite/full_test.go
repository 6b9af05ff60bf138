package sqlite

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/mattn/go-sqlite3"
)

// TestIsFull: a disk without room is one in whatever words SQLite says it.
func TestIsFull(t *testing.T) {
	for _, err := range []error{
		sqlite3.Error{Code: sqlite3.ErrFull},
		sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.ENOSPC},
		sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EDQUOT},
		syscall.ENOSPC, syscall.EDQUOT,
	} {
		if !IsFull(fmt.Errorf("migrate: %w", err)) {
			t.Errorf("%v is not a full disk", err)
		}
	}
	for _, err := range []error{nil, errors.New("no space left on device"), sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EIO}} {
		if IsFull(err) {
			t.Errorf("%v is a full disk", err)
		}
	}
}
