package supervisor

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// killsEnv says how often TestRandomKills kills; make soak-agents sets it.
const killsEnv = "LIGHTWORK_SOAK_KILLS"

// TestRandomKills kills a node at any moment of its life, also in the middle
// of a launch. Whatever it had started, guard, agent, children and a grandchild
// in a session of its own, is gone 2 s later.
func TestRandomKills(t *testing.T) {
	requirements.Covers(t, "PT-5")
	kills := 8
	if v := os.Getenv(killsEnv); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
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
		core.Env = []string{roleEnv + "=core:" + filepath.Join(dir, strconv.Itoa(i)), "PATH=" + os.Getenv("PATH")}
		if err := core.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(rand.Int64N(int64(80 * time.Millisecond)))
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
			if time.Since(killed) > patience {
				t.Fatalf("killed after %s: %v live on", after, left)
			}
			time.Sleep(time.Millisecond)
		}
		slowest = max(slowest, time.Since(killed))
		guard.ReapOrphans(-1)
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
