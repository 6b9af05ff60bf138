package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Where no process can be born in a group, as under the filters of containers,
// one is started and moved. A folder that is no group is refused in the same place.
func TestStartWhereNothingIsBornInGroups(t *testing.T) {
	g := &Group{version: 2, dirs: map[string]string{"memory": t.TempDir()}}
	if err := os.WriteFile(filepath.Join(g.dirs["memory"], "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("true")
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	moved, err := os.ReadFile(filepath.Join(g.dirs["memory"], "cgroup.procs"))
	if err != nil || string(moved) != strconv.Itoa(cmd.Process.Pid) {
		t.Errorf("moved %q, %v; want %d", moved, err, cmd.Process.Pid)
	}
}
