package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMemoryIsHidden: a node that dies of a signal leaves no dump, and another
// process of its user cannot read its memory.
func TestMemoryIsHidden(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "lightwork.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(binDir, "lightwork"), "-c", pipe, "config", "check")
	owner := uint32(os.Getuid())
	if owner == 0 { // whose processes' files are root's in any case
		owner = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
		for dir := range strings.SplitSeq(binDir+"\n"+filepath.Dir(pipe)+"\n"+filepath.Dir(filepath.Dir(pipe)), "\n") {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(pipe, int(owner), int(owner)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	config, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once the program reads it
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()

	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max core file size 0 0 bytes") {
		t.Errorf("%v\n%s", err, limits)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid == owner {
		t.Errorf("the memory belongs to user %d", uid)
	}
	if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).CoreDump() {
		t.Errorf("ended with %v, %v", err, cmd.ProcessState)
	}
}
