package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// needsCgroups ends the test where groups cannot be made; as root they must be.
func needsCgroups(t *testing.T) {
	t.Helper()
	g, err := New(DefaultRoot, Limits{MemoryBytes: 32 << 20, Pids: 8, CPUs: 1})
	if err == nil {
		err = g.Remove()
	}
	// A container's root sees the cgroups and may change none.
	var mounted syscall.Statfs_t
	readOnly := syscall.Statfs(DefaultRoot, &mounted) == nil && mounted.Flags&syscall.MS_RDONLY != 0
	if err != nil && (readOnly || os.Geteuid() != 0) {
		testclass.Unavailable(t, "no cgroup can be made here: "+err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseGroups(t *testing.T) {
	own := parseGroups("4:memory:/a/b\n1:cpu,cpuacct:/c\n9:name=systemd:/d\n0::/e:f\nbroken\n")
	for c, want := range map[string]string{"memory": "/a/b", "cpu": "/c", "cpuacct": "/c", "name=systemd": "/d", "": "/e:f"} {
		if own[c] != want {
			t.Errorf("%s is %q", c, own[c])
		}
	}
}

func TestUnifiedParents(t *testing.T) {
	got := unifiedParents("/cg", "/system.slice/node.service/main")
	if got[0] != "/cg/system.slice/node.service/main" || got[1] != "/cg/system.slice/node.service" {
		t.Errorf("got %v", got)
	}
}

// What all three controllers lack for one reason is one thing to mend, and is said
// once; what differs is said of each.
func TestMissingForOneReasonIsSaidOnce(t *testing.T) {
	root := t.TempDir()
	for _, c := range controllers() {
		if err := os.WriteFile(filepath.Join(root, c), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &Group{version: 1, dirs: map[string]string{}}
	missing := g.createLegacy(root, "name", nil)
	if len(missing) != 1 || !strings.Contains(missing[0], "below "+root+": not a directory (") {
		t.Errorf("one reason: %q", missing)
	}
	if err := os.Remove(filepath.Join(root, "pids")); err != nil {
		t.Fatal(err)
	}
	if missing := g.createLegacy(root, "name", nil); len(missing) != 3 || !strings.HasPrefix(missing[1], "pids limit: ") {
		t.Errorf("two reasons: %q", missing)
	}
}

// The settings of the unified hierarchy, which this machine may not have.
func TestSettingsOfBothVersions(t *testing.T) {
	l := Limits{MemoryBytes: 1 << 20, Pids: 7, CPUs: 1.5}
	for version, want := range map[int]string{
		1: "memory.limit_in_bytes=1048576 memory.memsw.limit_in_bytes=1048576 pids.max=7 cpu.cfs_period_us=100000 cpu.cfs_quota_us=150000",
		2: "memory.max=1048576 memory.swap.max=0 pids.max=7 cpu.max=150000 100000",
	} {
		var got []string
		for _, s := range (&Group{version: version}).settings(l) {
			got = append(got, s.file+"="+s.value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("version %d: %v", version, got)
		}
	}
	if s := (&Group{version: 2}).settings(Limits{CPUs: 0.0001}); len(s) != 1 || s[0].value != "1000 100000" {
		t.Errorf("the smallest quota is %v", s)
	}
}

// A process that died without cleaning up: its cgroups, and what runs in them,
// go at the next start; those of a living one stay.
func TestSweep(t *testing.T) {
	needsCgroups(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	mine, err := newName()
	if err != nil {
		t.Fatal(err)
	}
	ns := strings.Split(strings.TrimPrefix(mine, prefix), "-")[0]
	orphan := fmt.Sprintf("%s%s-%d-12345-ABC", prefix, ns, gone.Process.Pid)
	foreign := fmt.Sprintf("%s1-%d-12345-ABC", prefix, gone.Process.Pid)
	l := Limits{MemoryBytes: 32 << 20, Pids: 8, CPUs: 1}
	groups := map[string]*Group{}
	for _, name := range []string{mine, orphan, foreign} {
		g, err := newNamed(DefaultRoot, name, l)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Remove()
		groups[name] = g
	}
	sleeper := exec.Command("sleep", "600")
	if err := groups[orphan].Start(sleeper); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan error, 1)
	go func() { reaped <- sleeper.Wait() }()
	removed, err := Sweep(DefaultRoot)
	if err != nil || len(removed) == 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := <-reaped; err == nil {
		t.Error("the leftover process was not killed")
	}
	for name, want := range map[string]bool{mine: true, orphan: false, foreign: true} {
		_, err := os.Stat(groups[name].dirs["memory"])
		if (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
}

func TestOrphaned(t *testing.T) {
	by, err := owner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		by + "-X":                                false,
		strings.Replace(by, "-", "-9", 1):        false, // another pid namespace, and too few parts
		by[:strings.LastIndex(by, "-")] + "-1-X": true,  // the same pid, but of an earlier process
		prefix + "x":                             false,
		"lightwork-a-b-c-d":                      false,
		"other":                                  false,
	} {
		if isOrphan(name) != want {
			t.Errorf("orphaned(%s) is %v", name, !want)
		}
	}
}

func TestSettingsAreInForceInside(t *testing.T) {
	needsCgroups(t)
	g, err := New(DefaultRoot, Limits{MemoryBytes: 32 << 20, Pids: 8, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	sleeper := exec.Command("sleep", "600")
	if err := g.Start(sleeper); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	for c, dir := range g.dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(sleeper.Process.Pid) {
			t.Errorf("%s cgroup holds %q, %v", c, text, err)
		}
	}
}

// shell puts a shell into g that runs the script once begin is called. The
// caller waits for it.
func shell(t *testing.T, g *Group, script string) (cmd *exec.Cmd, begin func()) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() { fmt.Fprintln(in, "go") }
}

// Kill reaches what left its session and its parents behind.
func TestKillReachesEverything(t *testing.T) {
	needsCgroups(t)
	g, err := New(DefaultRoot, Limits{Pids: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	cmd, begin := shell(t, g, "setsid sleep 600 & setsid sleep 600 & sleep 600")
	begin()
	procs := func() int {
		text, err := os.ReadFile(filepath.Join(g.dirs["pids"], "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		return len(strings.Fields(string(text)))
	}
	for end := time.Now().Add(time.Minute); procs() < 4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := procs(); n < 4 {
		t.Fatalf("%d processes began", n)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the shell was not killed")
	}
	if n := procs(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestRefusedForksAreCounted(t *testing.T) {
	needsCgroups(t)
	g, err := New(DefaultRoot, Limits{Pids: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	cmd, begin := shell(t, g, "(true; (true; true) & wait) & wait; exit 0")
	if n := g.ForksRefused(); n != 0 {
		t.Errorf("%d before anything ran", n)
	}
	begin()
	_ = cmd.Wait()
	if n := g.ForksRefused(); n == 0 {
		t.Error("none is counted")
	}
}

func TestQuotaIsInForce(t *testing.T) {
	needsCgroups(t)
	g, err := New(DefaultRoot, Limits{CPUs: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	file := map[int]string{1: "cpu.cfs_quota_us", 2: "cpu.max"}[g.Version()]
	text, err := os.ReadFile(filepath.Join(g.dirs["cpu"], file))
	if err != nil || !strings.HasPrefix(string(text), "20000") {
		t.Errorf("quota is %q, %v", text, err)
	}
}
