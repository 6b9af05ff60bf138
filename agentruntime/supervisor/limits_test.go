package supervisor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/agents/reference"
	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// limited is an agent in a group of its own, or a skip where none can be made.
func limited(t *testing.T, role string, l cgroup.Limits, tools ...string) Spec {
	t.Helper()
	g, err := cgroup.New(cgroup.DefaultRoot, l)
	if err == nil {
		err = g.Remove()
	}
	// A container's root sees the cgroups and may change none.
	var mounted syscall.Statfs_t
	readOnly := syscall.Statfs(cgroup.DefaultRoot, &mounted) == nil && mounted.Flags&syscall.MS_RDONLY != 0
	if err != nil && (readOnly || os.Geteuid() != 0) {
		testclass.Unavailable(t, "no cgroup can be made here: "+err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	spec := agentSpec(role)
	spec.Limits.Group = l
	spec.Tools = append(spec.Tools, tools...)
	spec.Restart.Never = true
	return spec
}

func noGroupsLeft(t *testing.T) {
	t.Helper()
	mine := fmt.Sprintf("-%d-", os.Getpid())
	_ = filepath.WalkDir(cgroup.DefaultRoot, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "lightwork-") && strings.Contains(d.Name(), mine) {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

// TestMemoryOfAnAgent: one that takes too much is ended, and told of; the node
// goes on.
func TestMemoryOfAnAgent(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, limited(t, "tools", cgroup.Limits{MemoryBytes: 96 << 20}, "hog"))
	if _, err := refCall(n, "hog", `{}`); code(err) != wire.CodeUnavailable {
		t.Errorf("call: %v", err)
	}
	eventually(t, "the agent is down", func() bool { return n.Status()[0].State == StateDown })
	if st := n.Status()[0]; !strings.Contains(st.Reason, "over its memory limit of 96 MB") {
		t.Errorf("reason %q", st.Reason)
	}
	noGroupsLeft(t)
}

// TestAgentsAreWatched: where there are no cgroups an agent with too much memory,
// or too many processes, is ended with all of them, and told of.
func TestAgentsAreWatched(t *testing.T) {
	for what, tt := range map[string]struct {
		limits    cgroup.Limits
		tool, why string
	}{
		"memory":    {cgroup.Limits{MemoryBytes: 96 << 20}, "hog", "over its memory limit of 96 MB"},
		"processes": {cgroup.Limits{Pids: 30}, "fork", "more than the limit of"},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, Config{CgroupRoot: t.TempDir()})
			spec := agentSpec("tools")
			spec.Limits.Group, spec.Tools, spec.Restart.Never = tt.limits, append(spec.Tools, tt.tool), true
			start(t, n, spec)
			if n.Status()[0].Unlimited == "" {
				t.Error("the status says nothing of the cgroups that are missing")
			}
			_, _ = refCall(n, tt.tool, `{}`)
			eventually(t, "the agent is down", func() bool { return n.Status()[0].State == StateDown })
			if st := n.Status()[0]; !strings.Contains(st.Reason, tt.why) {
				t.Errorf("reason %q", st.Reason)
			}
		})
	}
}

// TestProcessesOfAnAgent: the limit counts threads too, and Go's runtime aborts
// where it gets none, so an agent at its limit may also end of itself.
func TestProcessesOfAnAgent(t *testing.T) {
	var n *node
	var r Result
	var err *Error
	for range 10 {
		n = newNode(t, Config{})
		start(t, n, limited(t, "tools", cgroup.Limits{Pids: 30}, "fork"))
		if r, err = refCall(n, "fork", `{}`); code(err) != wire.CodeUnavailable {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ N int }
	if err := json.Unmarshal(r.Output, &out); err != nil || out.N == 0 || out.N > 30+guardThreads {
		t.Errorf("started %d processes, %v", out.N, err)
	}
	if st := n.Status()[0]; st.Unlimited != "" {
		t.Errorf("status says %q", st.Unlimited)
	}
}

// TestGroupTakesWhatEscaped: without its guard even a process that left the
// agent's group and session is ended by the cgroup.
func TestGroupTakesWhatEscaped(t *testing.T) {
	n := newNode(t, Config{})
	start(t, n, limited(t, "family", cgroup.Limits{Pids: 100}))
	pids := family(t, n)
	if err := syscall.Kill(parent(t, pids[0]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are gone", func() bool { return allGone(pids) })
	if err := n.StopAgent(t.Context(), reference.ID); err != nil {
		t.Fatal(err)
	}
	noGroupsLeft(t)
}
