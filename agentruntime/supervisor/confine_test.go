package supervisor

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// reachFrom has an agent try to reach what the input names, and returns how each
// attempt ended, and what the node says of its confinement.
func reachFrom(t *testing.T, confine *guard.Confinement, input string) (out map[string]string, confined string) {
	t.Helper()
	n := newNode(t, Config{})
	spec := agentSpec("reach")
	spec.Tools, spec.Confine = []string{"reach"}, confine
	start(t, n, spec)
	r, failure := refCall(n, "reach", input)
	if failure != nil {
		t.Fatal(failure)
	}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatal(err)
	}
	return out, n.Status()[0].Confined
}

// TestConfinement: what an agent was not given it cannot read, write, connect
// to or signal, though it runs as the same user; what it was given it can.
func TestConfinement(t *testing.T) {
	requirements.Covers(t, "K-45")
	own, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{own, other} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("canary"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reach := func(t *testing.T, confine *guard.Confinement, dir string) (map[string]string, string) {
		t.Helper()
		return reachFrom(t, confine, fmt.Sprintf(`{"read":%q,"write":%q,"tcp":%q,"udp":%q,"signal":%d}`,
			filepath.Join(dir, "file"), filepath.Join(dir, "new"), tcp.Addr(), udp.LocalAddr(), os.Getpid()))
	}
	system := []string{"/usr", "/bin", "/lib", "/lib64", "/proc", "/dev/null", exe}
	confined := &guard.Confinement{Read: system, Write: []string{own, "/dev/null"}}
	outside, words := reach(t, confined, other)
	if strings.HasPrefix(words, "not confined") {
		testclass.Unavailable(t, words)
	}
	t.Log(words, outside)
	noNamespace := (&exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}}).Run()
	for what, want := range map[string]string{
		"read": "permission denied", "write": "permission denied", "tcp": "", "udp": "", "signal": "operation not permitted", "environ": "permission denied",
	} {
		if outside[what] == "reached" || !strings.Contains(outside[what], want) {
			if what == "udp" && noNamespace != nil {
				continue // an ordinary user, or in a container: said in the status
			}
			t.Errorf("outside: %s: %s", what, outside[what])
		}
	}
	inside, _ := reach(t, &guard.Confinement{Read: system, Write: []string{own, "/dev/null"}, Network: true}, own)
	for _, what := range []string{"read", "write", "tcp", "udp"} {
		if inside[what] != "reached" {
			t.Errorf("inside: %s: %s", what, inside[what])
		}
	}
	free, words := reach(t, nil, other)
	for what, got := range free {
		if got != "reached" && !strings.HasPrefix(what, "set id by ") {
			t.Errorf("unconfined: %s: %s", what, got)
		}
	}
	if words != "" {
		t.Errorf("unconfined, and said to be %q", words)
	}
}
