package supervisor

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
	if !strings.Contains(words, "no network") && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		t.Error(words)
	}
	for what, want := range map[string]string{
		"read": "permission denied", "write": "permission denied", "tcp": "", "udp": "", "signal": "operation not permitted", "environ": "permission denied",
	} {
		if outside[what] == "reached" || !strings.Contains(outside[what], want) {
			if what == "udp" && !strings.Contains(words, "no network") {
				continue // an architecture without a filter: said in the status
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

// TestConfinedAgentCannotReachItsGuard: what could signal its guard could leave a
// process behind that nothing ends, and what could write its memory would be as
// free as the guard is.
func TestConfinedAgentCannotReachItsGuard(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, Config{})
	spec := agentSpec("reach")
	spec.Tools = []string{"reach_guard"}
	spec.Confine = &guard.Confinement{Read: []string{"/usr", "/bin", "/lib", "/lib64", "/proc", exe}, Write: []string{"/dev/null"}}
	start(t, n, spec)
	confined := n.Status()[0].Confined
	if !strings.Contains(confined, "landlock") {
		testclass.Unavailable(t, confined)
	}
	r, failure := refCall(n, "reach_guard", `{}`)
	if failure != nil {
		t.Fatal(failure)
	}
	var out map[string]string
	if err := json.Unmarshal(r.Output, &out); err != nil || len(out) < 3 {
		t.Fatalf("%s: %v", r.Output, err)
	}
	for what, got := range out {
		if strings.HasPrefix(what, "signal") && !strings.Contains(confined, "signals scoped") {
			continue // a kernel that cannot; the status says so
		}
		if got != "operation not permitted" {
			t.Errorf("%s: %s", what, got)
		}
	}
}
