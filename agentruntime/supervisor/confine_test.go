package supervisor

import (
	"encoding/json"
	"errors"
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

// TestLinkOfAnAgentsOwnOpensNothing: what an agent put in the place of a folder that it
// was granted, below one that it may change, is not granted when it is started again.
func TestLinkOfAnAgentsOwnOpensNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "file"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	system := []string{"/usr", "/bin", "/lib", "/lib64", "/proc", exe}
	link := filepath.Join(own, "models")
	for name, c := range map[string]struct {
		target  string
		confine guard.Confinement
	}{
		"to read":               {other, guard.Confinement{Read: append(system, link), Write: []string{own, "/dev/null"}}},
		"to change":             {other, guard.Confinement{Read: system, Write: []string{link, own, "/dev/null"}}},
		"a link to a link":      {filepath.Join(own, "again"), guard.Confinement{Read: append(system, link+"/"), Write: []string{own, "/dev/null"}}},
		"below the link":        {filepath.Dir(other), guard.Confinement{Read: append(system, link+"/"+filepath.Base(other)), Write: []string{own, "/dev/null"}}},
		"by way of another one": {other, guard.Confinement{Read: append(system, own+"/../"+filepath.Base(own)+"/models"), Write: []string{own, "/dev/null"}}},
	} {
		for _, l := range []string{link, filepath.Join(own, "again")} {
			_ = os.Remove(l) // of the case before
		}
		if err := errors.Join(os.Symlink(c.target, link), os.Symlink(other, filepath.Join(own, "again"))); err != nil {
			t.Fatal(err)
		}
		n := newNode(t, Config{})
		spec := agentSpec("reach")
		spec.Tools, spec.Confine = []string{"reach"}, &c.confine
		err := n.Start(t.Context(), spec)
		if err == nil && !strings.HasPrefix(n.Status()[0].Confined, "landlock") {
			testclass.Unavailable(t, n.Status()[0].Confined)
		}
		if err == nil || !strings.Contains(err.Error(), link+" is a symbolic link") {
			t.Errorf("%s: started, %v", name, err)
		}
	}
	// The operator's own links are followed.
	beside := filepath.Join(t.TempDir(), "models")
	if err := os.Symlink(other, beside); err != nil {
		t.Fatal(err)
	}
	out, _ := reachFrom(t, &guard.Confinement{Read: append(system, beside), Write: []string{own, "/dev/null"}}, fmt.Sprintf(`{"read":%q}`, filepath.Join(other, "file")))
	if out["read"] != "reached" {
		t.Errorf("by the operator's link: %s", out["read"])
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
