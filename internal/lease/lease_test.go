package lease

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LEASE_TEST_DIR"); dir != "" { // holds a lease until stdin ends
		l, err := Dir(dir).Take("job")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("taken")
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Release()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// TestLeaseEndsWithItsProcess: a process that is killed leaves its file, and no lease.
func TestLeaseEndsWithItsProcess(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "leases"))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "LEASE_TEST_DIR="+string(dir))
	in, err := child.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "taken\n" {
		t.Fatalf("child: %q, %v", line, err)
	}

	var held *HeldError
	if _, err := dir.Take("job"); !errors.As(err, &held) || !errors.Is(err, ErrHeld) || held.PID != child.Process.Pid {
		t.Errorf("Take = %v, want it held by %d", err, child.Process.Pid)
	}
	if pid, held, err := dir.Holder("job"); !held || pid != child.Process.Pid || err != nil {
		t.Errorf("Holder = %d, %v, %v", pid, held, err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()

	if _, held, err := dir.Holder("job"); held || err != nil {
		t.Errorf("after the kill: %v, %v", held, err)
	}
	l, err := dir.Take("job")
	must(t, err)
	must(t, l.Release())
	if left, err := os.ReadDir(string(dir)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestOneHolder: however many come and go, one has the lease, though each removes the
// file that the others may just have opened.
func TestOneHolder(t *testing.T) {
	dir := Dir(t.TempDir())
	var holders, taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for mine := 0; mine < 50; {
				l, err := dir.Take("job")
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold it", n)
				}
				mine++
				taken.Add(1)
				holders.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 8*50 {
		t.Errorf("taken %d times", taken.Load())
	}
}

func TestNames(t *testing.T) {
	dir := Dir(t.TempDir())
	for _, name := range []string{"", ".", "..", "a/b", "../a", ".hidden", strings.Repeat("a", 300)} {
		if _, err := dir.Take(name); err == nil {
			t.Errorf("%q was taken", name)
		}
		if _, held, _ := dir.Holder(name); held {
			t.Errorf("%q is held", name)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
