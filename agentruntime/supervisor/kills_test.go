package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// goneWithin is the promise of how long anything outlives its node. A busy machine
// may take three times as long.
const goneWithin = 2 * time.Second

// TestRandomKills kills a node at any moment of its life, also in the middle
// of a launch. Whatever it had started, guard, agent, children and a grandchild
// in a session of its own, is gone 2 s later.
func TestRandomKills(t *testing.T) {
	requirements.Covers(t, "PT-5")
	kills, lot := testclass.Size(t, 8, 1000, "soak-agents"), testclass.Lot(t)
	// Orphans come to this process, so that none can hide.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := shortTempDir(t)
	var slowest time.Duration
	for i := range kills {
		core := exec.Command(exe)
		role := "=core:"
		if i%2 == 1 {
			role = "=confined core:"
		}
		core.Env = []string{roleEnv + role + filepath.Join(dir, strconv.Itoa(i)), "PATH=" + os.Getenv("PATH")}
		if err := core.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(lot.Int64N(int64(80 * time.Millisecond)))
		time.Sleep(after) // what is tested is that any moment will do
		if err := core.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		_ = core.Wait()
		var left []int
		for {
			if left = living(guard.Descendants(os.Getpid())); len(left) == 0 {
				break
			}
			if took := time.Since(killed); took > 3*goneWithin {
				t.Fatalf("killed after %s: %v live on after %s, and %s is promised", after, left, took, goneWithin)
			}
			time.Sleep(time.Millisecond)
		}
		slowest = max(slowest, time.Since(killed))
		for {
			if pid, _ := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
	t.Logf("%d kills, the slowest end took %s", kills, slowest)
}

func living(pids []int) (alivePIDs []int) {
	for _, pid := range pids {
		if alive(pid) {
			alivePIDs = append(alivePIDs, pid)
		}
	}
	return alivePIDs
}
