package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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
