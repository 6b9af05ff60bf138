package guard

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const orphansEnv = "LIGHTWORK_TEST_ORPHANS"

// TestMain is also the process that waits for an agent: a guard waits for every child
// of its process.
func TestMain(m *testing.M) {
	if os.Getenv(orphansEnv) != "" {
		waitForOrphans()
		return
	}
	m.Run()
}

const orphans = 200

// waitForOrphans prints what processor time it took to wait for an agent that leaves
// orphans, and what one look at all processes takes.
func waitForOrphans() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return
	}
	before := processorTime()
	const looks = 10
	for range looks {
		Descendants(os.Getpid())
	}
	look := (processorTime() - before) / looks

	// The next orphan comes when the last one is gone.
	agent := exec.Command("sh", "-c", fmt.Sprintf(
		`i=0; while [ $i -lt %d ]; do p=$(sh -c 'true & echo $!'); while kill -0 $p 2>/dev/null; do :; done; i=$((i+1)); done`, orphans))
	agent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := agent.Start(); err != nil {
		fmt.Println(err)
		return
	}
	before = processorTime()
	status := (&guard{pid: agent.Process.Pid}).waitAgent()
	fmt.Printf("%s|%d|%d", strings.ReplaceAll(status, " ", "_"), processorTime()-before, look)
}

func processorTime() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestOrphansAreCheap: an agent that makes orphans as fast as it can does not have its
// guard look at all processes of the machine for each.
func TestOrphansAreCheap(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	waiter := exec.CommandContext(t.Context(), exe)
	waiter.Env = append(os.Environ(), orphansEnv+"=1")
	out, err := waiter.Output()
	if err != nil {
		t.Fatal(err)
	}

	var took, look time.Duration
	if _, err := fmt.Sscanf(strings.ReplaceAll(string(out), "|", " "), "exit_status_0 %d %d", &took, &look); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	t.Logf("%d orphans took %s; one look at all processes takes %s", orphans, took, look)
	if took > orphans/2*look {
		t.Errorf("%d orphans took %s, and a look at all processes takes %s", orphans, took, look)
	}
}
