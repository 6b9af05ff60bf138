package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseCgroups(t *testing.T) {
	own := parseCgroups("4:memory:/a/b\n1:cpu,cpuacct:/c\n9:name=systemd:/d\n0::/e:f\nbroken\n")
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

// The settings of the unified hierarchy, which this machine may not have.
func TestSettingsOfBothVersions(t *testing.T) {
	l := limits{MemoryBytes: 1 << 20, Pids: 7, CPUs: 1.5}
	for version, want := range map[int]string{
		1: "memory.limit_in_bytes=1048576 memory.memsw.limit_in_bytes=1048576 pids.max=7 cpu.cfs_period_us=100000 cpu.cfs_quota_us=150000",
		2: "memory.max=1048576 memory.swap.max=0 pids.max=7 cpu.max=150000 100000",
	} {
		var got []string
		for _, s := range (&cgroup{version: version}).settings(l) {
			got = append(got, s.file+"="+s.value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("version %d: %v", version, got)
		}
	}
	if s := (&cgroup{version: 2}).settings(limits{CPUs: 0.0001}); s[3].value != "1000 100000" {
		t.Errorf("the smallest quota is %s", s[3].value)
	}
}

// A process that died without cleaning up: its cgroups, and what runs in them,
// go at the next start; those of a living one stay.
func TestSweep(t *testing.T) {
	needsConfinement(t)
	opts := testOptions(t)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	mine, err := cgroupName()
	if err != nil {
		t.Fatal(err)
	}
	ns := strings.Split(strings.TrimPrefix(mine, cgroupPrefix), "-")[0]
	orphan := fmt.Sprintf("%s%s-%d-12345-ABC", cgroupPrefix, ns, gone.Process.Pid)
	foreign := fmt.Sprintf("%s1-%d-12345-ABC", cgroupPrefix, gone.Process.Pid)
	l := limits{MemoryBytes: 32 << 20, Pids: 8, CPUs: 1}
	groups := map[string]*cgroup{}
	for _, name := range []string{mine, orphan, foreign} {
		g, err := newCgroup(opts.CgroupRoot, name, l)
		if err != nil {
			t.Fatal(err)
		}
		defer g.remove()
		groups[name] = g
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := groups[orphan].add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan error, 1)
	go func() { reaped <- sleeper.Wait() }()
	if err := Sweep(opts); err != nil {
		t.Error(err)
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
	owner, err := cgroupOwner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		owner + "-X":                                   false,
		strings.Replace(owner, "-", "-9", 1):           false, // another pid namespace, and too few parts
		owner[:strings.LastIndex(owner, "-")] + "-1-X": true,  // the same pid, but of an earlier process
		cgroupPrefix + "x":                             false,
		"lightwork-a-b-c-d":                            false,
		"other":                                        false,
	} {
		if orphaned(name) != want {
			t.Errorf("orphaned(%s) is %v", name, !want)
		}
	}
}

func TestSettingsAreInForceInside(t *testing.T) {
	needsConfinement(t)
	opts := testOptions(t)
	name, err := cgroupName()
	if err != nil {
		t.Fatal(err)
	}
	g, err := newCgroup(opts.CgroupRoot, name, limits{MemoryBytes: 32 << 20, Pids: 8, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	if err := g.add(sleeper.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for c, dir := range g.dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(sleeper.Process.Pid) {
			t.Errorf("%s cgroup holds %q, %v", c, text, err)
		}
	}
}
