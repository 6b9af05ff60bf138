package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

// A killed agent takes its sandbox along, and the next one removes the cgroups
// that are left.
func TestKilledAgentLeavesNothing(t *testing.T) {
	s, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	pid := s.Status()[0].PID
	mark := fmt.Sprintf("700.%d", os.Getpid())
	_, doc := input(t, 100, "echo up; sleep "+mark)
	_, err = s.Call(t.Context(), supervisor.Call{
		AgentID: ID, Tool: Tool, Input: doc, CausationID: "d", Timeout: time.Minute,
		OnStream: func(supervisor.Chunk) { _ = syscall.Kill(pid, syscall.SIGKILL) },
	})
	if err == nil {
		t.Fatal("the call of a dead agent succeeded")
	}
	deadline := time.Now().Add(time.Minute)
	for alive(t, mark) {
		if time.Now().After(deadline) {
			t.Fatal("the job outlived its agent")
		}
	}
	if len(cgroupsOf(t, pid)) == 0 {
		t.Log("the crash left no cgroup")
	}
	if _, err := start(t); err != nil {
		t.Fatal(err)
	}
	if left := cgroupsOf(t, pid); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func alive(t *testing.T, mark string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "sleep "+mark) {
			return true
		}
	}
	return false
}

// cgroupsOf finds the job cgroups that process pid made, at any depth that
// matters.
func cgroupsOf(t *testing.T, pid int) []string {
	t.Helper()
	var all []string
	for _, depth := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
		found, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/%s/lightwork-*-%d-*-*", depth, pid))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}
