package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("database is closed")
	// ErrBadPath is returned for a path that names no file.
	ErrBadPath = errors.New("not a file path")
	// ErrCommit is returned to every caller whose update was in a transaction
	// that could not be committed. Only opening the database again shows whether
	// the update is durable.
	ErrCommit = errors.New("commit failed")
	// ErrReadOnly is returned by Update on a read-only database and on one
	// whose commit failed.
	ErrReadOnly = errors.New("database is read-only")
	// ErrLocked is wrapped by *LockedError.
	ErrLocked = errors.New("database is in use by another process")
	// ErrTooNew is returned for a file that a newer program has migrated.
	ErrTooNew = errors.New("database was written by a newer program")
	// ErrTooOld is returned for a file that is opened read-only and is not migrated
	// yet.
	ErrTooOld = errors.New("database is not up to date yet")
	// ErrEmpty is wrapped beside ErrTooOld for a file that another process has begun to
	// make, and has nothing in it yet.
	ErrEmpty = errors.New("database has nothing in it yet")
	// ErrUnreleased is returned for a file whose version is older than the first one
	// that this program can migrate.
	ErrUnreleased = errors.New("database was made by a version before the first release")
	// ErrTxDone is returned by a Tx that is used after its function returned,
	// or after SQLite rolled the transaction back because of an earlier error.
	ErrTxDone = errors.New("transaction has ended")
	// ErrPragma is returned by Open when SQLite did not accept a pragma.
	ErrPragma = errors.New("SQLite did not accept a pragma")
)

// LockedError names the process that holds the lock of a database.
type LockedError struct {
	Path string // the lock file
	PID  int    // the holder, 0 if it has not written its pid yet
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%v (%s)", ErrLocked, e.Path)
	}
	return fmt.Sprintf("%v: pid %d holds %s", ErrLocked, e.PID, e.Path)
}

// Is reports that a LockedError is an ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// IsFull reports whether err means a full disk. SQLite has a code of its own for it,
// but for files beside the database it reports an I/O error with the system's code.
func IsFull(err error) bool {
	var e sqlite3.Error
	if errors.As(err, &e) && (e.SystemErrno == syscall.ENOSPC || e.SystemErrno == syscall.EDQUOT) {
		return true
	}
	return isCode(err, sqlite3.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsDamaged reports whether err means that a file is damaged or no database.
func IsDamaged(err error) bool {
	return isCode(err, sqlite3.ErrCorrupt, sqlite3.ErrNotADB) || errors.Is(err, ErrCorrupt)
}

func isCode(err error, codes ...sqlite3.ErrNo) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// IsUnique reports whether err is a violation of a UNIQUE or PRIMARY KEY constraint.
func IsUnique(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.ExtendedCode {
	case sqlite3.ErrConstraintUnique, sqlite3.ErrConstraintPrimaryKey, sqlite3.ErrConstraintRowID:
		return true
	}
	return false
}

// IsForeignKey reports whether err is a violation of a foreign key: a row refers to a
// row that does not exist.
func IsForeignKey(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrConstraintForeignKey
}

// IsConstraint reports whether err is a violation of any constraint: CHECK, NOT NULL,
// a foreign key, a trigger's RAISE, or a constraint that [IsUnique] recognises.
func IsConstraint(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.Code == sqlite3.ErrConstraint
}
