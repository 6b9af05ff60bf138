package watchdog

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// run starts a shell command and waits until it has said "ready".
func run(t *testing.T, command string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // what it started ends at that
		_ = cmd.Wait()
	})
	ready := make([]byte, 6)
	if n, err := out.Read(ready); err != nil || !strings.HasPrefix("ready\n", string(ready[:n])) {
		t.Fatalf("%q, %v", ready[:n], err)
	}
	return cmd
}

func python(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	testclass.Require(t, "python3")
	return run(t, `exec python3 -c '
import mmap, os, sys
`+program+`
print("ready", flush=True)
sys.stdin.read()'`)
}

// TestMemory: what the processes take is found wherever they keep it, and what
// they share counts once.
func TestMemory(t *testing.T) {
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		program     string
		least, most int64 // MiB
	}{
		"little":  {"", 0, 20},
		"its own": {"x = bytearray(64 << 20)", 64, 84},
		"inherited": {`x = bytearray(b"x" * (64 << 20))
for i in range(4):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)`, 64, 100},
		"shared": {`x = mmap.mmap(-1, 64 << 20)
x.write(b"x" * (64 << 20))`, 64, 84},
		"shared, and out of its numbers": {`x = mmap.mmap(-1, 64 << 20)
x.write(b"x" * (64 << 20))
x.madvise(mmap.MADV_DONTNEED)`, 64, 84},
		"shared with a device": {`x = mmap.mmap(os.open("/dev/zero", os.O_RDWR), 64 << 20)
x.write(b"x" * (64 << 20))
x.madvise(mmap.MADV_DONTNEED)`, 64, 84},
		"in a file without a name": {`f = os.memfd_create("x")
os.ftruncate(f, 64 << 20)
x = mmap.mmap(f, 64 << 20)
x.write(b"x" * (64 << 20))`, 64, 84},
		"set aside and not used": {`x = mmap.mmap(-1, 256 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)`, 0, 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := python(t, tt.program)
			used := measure(Below(p.Process.Pid))
			if used < tt.least*mib || used > tt.most*mib {
				t.Errorf("%d MiB counted, want %d to %d", used/mib, tt.least, tt.most)
			}

			if tt.least > 0 {
				err := Watch(t.Context(), p.Process.Pid, Limits{MemoryBytes: tt.least * mib / 2})
				var over *MemoryError
				if !errors.As(err, &over) || over.Limit != tt.least*mib/2 {
					t.Errorf("with half as much allowed: %v", err)
				}
			}
			if err := look(p.Process.Pid, Limits{MemoryBytes: tt.most * mib}); err != nil {
				t.Errorf("with enough allowed: %v", err)
			}
		})
	}
}

func TestTasks(t *testing.T) {
	p := run(t, `for i in 1 2 3 4 5 6 7 8; do (setsid cat >/dev/null <&0 &) ; done <&0; echo ready; cat >/dev/null`)
	var over *TasksError
	if err := Watch(t.Context(), p.Process.Pid, Limits{Tasks: 1}); !errors.As(err, &over) || over.Used < 2 {
		t.Errorf("more than one: %v", err)
	}
	if err := look(p.Process.Pid, Limits{Tasks: 100}); err != nil {
		t.Error(err)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Watch(ctx, os.Getpid(), Limits{MemoryBytes: 1 << 40, Tasks: 1 << 20}); err != nil {
		t.Error(err)
	}
}
