package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestSharedLock: those who share a file exclude those who do not, and the other way
// round.
func TestSharedLock(t *testing.T) {
	path := temp(t)
	a := open(t, path, Options{SharedLock: true})
	b := open(t, path, Options{SharedLock: true})
	must(t, a.Update(t.Context(), insert("a")))
	must(t, b.Update(t.Context(), insert("b")))
	if got := values(t, a); !got["a"] || !got["b"] {
		t.Errorf("rows %v", got)
	}

	_, err := Open(t.Context(), path, Options{Migrations: []string{schema}, ExclusiveLock: true})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != 0 {
		t.Errorf("exclusive beside shared: %v", err)
	}
	must(t, a.Close())
	must(t, b.Close())
	alone := open(t, path, Options{ExclusiveLock: true})
	if _, err := Open(t.Context(), path, Options{Migrations: []string{schema}, SharedLock: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("shared beside exclusive: %v", err)
	}
	must(t, alone.Close())
}

// TestProcessesShareAFile: processes that begin at once make one database, and none loses
// what another has written.
func TestProcessesShareAFile(t *testing.T) {
	path, processes := filepath.Join(t.TempDir(), "x.db"), 6
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			if out, err := runChild(t, "shared", fmt.Sprintf("%d:%s", i, path)); err != nil || !strings.Contains(out, "written") {
				t.Errorf("process %d: %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
	if got := values(t, open(t, path, Options{SharedLock: true})); len(got) != processes*sharedRows {
		t.Errorf("%d rows, want %d", len(got), processes*sharedRows)
	}
}

// sharedRows is how many rows a child of mode shared writes.
const sharedRows = 20

// writeShared is a child of mode shared.
func writeShared(arg string) error {
	name, path, _ := strings.Cut(arg, ":")
	db, err := Open(context.Background(), path, Options{Migrations: []string{schema}, SharedLock: true})
	if err != nil {
		return err
	}
	for i := range sharedRows {
		if err := db.Update(context.Background(), insert(fmt.Sprint(name, "/", i))); err != nil {
			return err
		}
	}
	return db.Close()
}

// TestWatch: whoever commits, whoever watches sees it, and the end of its context ends it.
func TestWatch(t *testing.T) {
	path := temp(t)
	a, b := open(t, path, Options{SharedLock: true}), open(t, path, Options{SharedLock: true})
	for i, writer := range []*DB{a, b} {
		looks := 0
		must(t, a.Watch(t.Context(), func(context.Context) (bool, error) {
			if looks++; looks == 1 {
				return false, writer.Update(t.Context(), insert(fmt.Sprint(i)))
			}
			return values(t, a)[fmt.Sprint(i)], nil
		}))
		if looks < 2 {
			t.Errorf("writer %d: looked %d times", i, looks)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Watch(ctx, func(context.Context) (bool, error) { cancel(); return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	failed := errors.New("no")
	if err := a.Watch(t.Context(), func(context.Context) (bool, error) { return false, failed }); !errors.Is(err, failed) {
		t.Errorf("failed: %v", err)
	}
	must(t, a.Close())
	if err := a.Watch(t.Context(), func(context.Context) (bool, error) { return false, nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestReadWhileItIsMade: a file that another process has begun to make is told apart from
// one that an older program made.
func TestReadWhileItIsMade(t *testing.T) {
	path := temp(t)
	must(t, open(t, path, Options{Migrations: []string{}}).Close())
	if _, err := Open(t.Context(), path, Options{Migrations: []string{schema}, ReadOnly: true}); !errors.Is(err, ErrEmpty) || !errors.Is(err, ErrTooOld) {
		t.Errorf("empty: %v", err)
	}
	must(t, open(t, path, Options{}).Close())
	if _, err := Open(t.Context(), path, Options{Migrations: []string{schema, "SELECT 1"}, ReadOnly: true}); errors.Is(err, ErrEmpty) || !errors.Is(err, ErrTooOld) {
		t.Errorf("old: %v", err)
	}
}
