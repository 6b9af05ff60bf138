package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// The tests here run this test binary again as a child process, because a
// crash cannot be had inside one.

// child is the child's main: mode says what it does with the database at path.
func child(mode, path string) int {
	switch mode {
	case "lock":
		return childLock(path)
	case "write":
		return childWrite(path)
	case "full":
		return childFull(path)
	case "shared":
		if err := writeShared(path); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("written")
		return 0
	case "migration killed", "migration without room":
		return childMigrate(mode, path)
	}
	return 2
}

func command(t *testing.T, mode, path string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = append(os.Environ(), "SQLITE_TEST_CHILD="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

func runChild(t *testing.T, mode, path string) (string, error) {
	t.Helper()
	out, err := command(t, mode, path).Output()
	return string(out), err
}

func childLock(path string) int {
	db, err := Open(context.Background(), path, Options{Migrations: []string{schema}, ExclusiveLock: true})
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		fmt.Println("locked by", locked.PID)
	case err != nil:
		fmt.Println("error", err)
	default:
		fmt.Println("opened")
		db.Close()
	}
	return 0
}

// childWrite inserts from several goroutines until it is killed and prints
// each value once Update said that it is durable.
func childWrite(path string) int {
	db, err := Open(context.Background(), path, Options{Migrations: []string{schema}, ExclusiveLock: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				v := fmt.Sprintf("%d-%d-%d", os.Getpid(), c, i)
				err := db.Update(context.Background(), func(tx *Tx) error {
					// Two rows in one update: a torn one would show.
					return errors.Join(insert(v)(tx), insert(v+"-twin")(tx))
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				out.Lock()
				fmt.Println(v)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return 1
}

func TestAcknowledgedUpdatesSurviveSIGKILL(t *testing.T) {
	requirements.Covers(t, "AP-14.1.2", "AP-14.2.2")
	path := temp(t)
	acked := map[string]bool{}
	for round := range 5 {
		cmd := command(t, "write", path)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(pipe) // for all of it: it reads ahead, and not to the end of a line
		for n := 1; ; n++ {
			v, err := lines.ReadString('\n')
			if err != nil { // a cut line was not acknowledged
				break
			}
			acked[strings.TrimSpace(v)] = true
			if n == 100+37*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed

		db := open(t, path, Options{ExclusiveLock: true}) // its lock died with it
		got := values(t, db)
		for v := range acked {
			if !got[v] {
				t.Fatalf("round %d: acknowledged row %s is gone", round, v)
			}
		}
		for v := range got {
			twin, ok := strings.CutSuffix(v, "-twin")
			if !ok {
				twin = v + "-twin"
			}
			if !got[twin] {
				t.Fatalf("round %d: half of an update is there: %s", round, v)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acked) < 500 {
		t.Fatalf("only %d rows were acknowledged", len(acked))
	}
}

// childFull writes under a file size limit, which stands for a full disk.
func childFull(path string) int {
	ctx := context.Background()
	signal.Ignore(unix.SIGXFSZ)
	db, err := Open(ctx, path, Options{Migrations: []string{schema}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	limit := unix.Rlimit{Cur: 256 << 10, Max: 256 << 10}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := range 10_000 {
		v := fmt.Sprintf("%d-%s", i, strings.Repeat("x", 2000))
		if err = db.Update(ctx, insert(v)); err != nil {
			break
		}
		fmt.Println("acked", i)
	}
	fmt.Println("commit error:", errors.Is(err, ErrCommit))
	fmt.Println("then read-only:", errors.Is(db.Update(ctx, insert("small")), ErrReadOnly))
	verr := db.View(ctx, func(tx *Tx) error {
		var n int
		return tx.QueryRow("SELECT count(*) FROM t").Scan(&n)
	})
	fmt.Println("readable:", verr == nil)
	return 0
}

func TestFullDiskMakesReadOnly(t *testing.T) {
	path := temp(t)
	out, err := runChild(t, "full", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"commit error: true", "then read-only: true", "readable: true"} {
		if !strings.Contains(out, want) {
			t.Errorf("the child did not say %q", want)
		}
	}
	got := values(t, open(t, path, Options{}))
	n := strings.Count(out, "acked ")
	if n == 0 || len(got) < n || got["small"] {
		t.Errorf("%d rows, %d acknowledged", len(got), n)
	}
}

// manyRows is a step that writes more than stays in memory.
const manyRows = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t(v) SELECT i || printf('%.400c', 'x') FROM n`

// childMigrate begins a step that has no end, and ends in its midst: with the process,
// once a part is written, or with an error, since a file may not grow further.
func childMigrate(mode, path string) int {
	if mode == "migration killed" {
		go func() {
			for {
				if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 4<<20 {
					_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				}
				runtime.Gosched()
			}
		}()
	} else {
		signal.Ignore(unix.SIGXFSZ)
		limit := unix.Rlimit{Cur: 4 << 20, Max: 4 << 20}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	endless := strings.Replace(manyRows, " WHERE i < 20000", "", 1)
	_, err := Open(context.Background(), path, Options{Migrations: []string{schema, endless}})
	fmt.Println(err)
	return 0
}

// TestMigrationInHalf: of a step that ended in its midst, with its process or for want
// of room, nothing is there, and the next start does it whole.
func TestMigrationInHalf(t *testing.T) {
	for mode, want := range map[string]string{"migration killed": "signal: killed", "migration without room": "file too large"} {
		path := temp(t)
		db := open(t, path, Options{})
		must(t, db.Update(t.Context(), insert("before")))
		must(t, db.Close())

		out, err := runChild(t, mode, path)
		if ended := fmt.Sprint(err, out); !strings.Contains(ended, want) {
			t.Fatalf("%s: %s", mode, ended)
		}

		for n, want := range []int{1, 20_001, 20_001} { // before the step, after it, and it is not done again
			db := open(t, path, Options{Migrations: []string{schema, manyRows}[:min(n+1, 2)]})
			if got := len(values(t, db)); got != want {
				t.Errorf("%s, open %d: %d rows, want %d", mode, n, got, want)
			}
			must(t, db.Close())
		}
	}
}
