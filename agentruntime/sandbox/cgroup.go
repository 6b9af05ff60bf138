package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// limits are what a cgroup enforces.
type limits struct {
	MemoryBytes int64
	Pids        int
	CPUs        float64
}

const cpuPeriodUs = 100_000

// controllers are what every job needs.
func controllers() []string { return []string{"memory", "pids", "cpu"} }

// cgroup is one job's set of directories: one in a unified hierarchy, one a
// controller in the older form.
type cgroup struct {
	version int
	dirs    map[string]string // controller: directory
}

// cgroupPrefix begins every name; who made the cgroup follows, so that a later
// process can tell a leftover from a neighbour.
const cgroupPrefix = "lightwork-"

// newCgroup makes a job's cgroup below the one this process is in or, for
// root, where that is not possible, at the top of the hierarchy. Whatever was
// made is removed again on error.
func newCgroup(root string, name string, l limits) (*cgroup, error) {
	g := &cgroup{version: cgroupVersion(root), dirs: map[string]string{}}
	if g.version == 0 {
		return nil, &ConfineError{Missing: []string{"no cgroup file system at " + root + ": mount one, or run where there is one"}}
	}
	own, err := ownCgroups()
	if err != nil {
		return nil, &ConfineError{Missing: []string{err.Error()}}
	}
	missing := g.create(root, name, own, l)
	if len(missing) > 0 {
		_ = g.remove()
		return nil, &ConfineError{Missing: missing}
	}
	return g, nil
}

func (g *cgroup) create(root, name string, own map[string]string, l limits) (missing []string) {
	if g.version == 2 {
		dir, err := makeGroup(unifiedParents(root, own[""]), name, controllers())
		if err != nil {
			return []string{fmt.Sprintf("memory, pids and cpu limits: %v (give the service Delegate=yes and DelegateSubgroup=, or run as root)", err)}
		}
		for _, c := range controllers() {
			g.dirs[c] = dir
		}
	} else {
		for _, c := range controllers() {
			dir, err := makeGroup(legacyParents(filepath.Join(root, c), own[c]), name, nil)
			if err != nil {
				missing = append(missing, fmt.Sprintf("%s limit: %v (mount the %s controller and run as root)", c, err, c))
				continue
			}
			g.dirs[c] = dir
		}
	}
	if len(missing) > 0 {
		return missing
	}
	for _, s := range g.settings(l) {
		if err := os.WriteFile(filepath.Join(g.dirs[s.controller], s.file), []byte(s.value), 0); err != nil {
			if s.optional && errors.Is(err, os.ErrNotExist) {
				continue
			}
			missing = append(missing, fmt.Sprintf("%s limit: %v", s.controller, err))
		}
	}
	return missing
}

type setting struct {
	controller, file, value string
	optional                bool // where the kernel has no swap accounting
}

func (g *cgroup) settings(l limits) []setting {
	memory, quota := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(max(1000, int64(l.CPUs*cpuPeriodUs)), 10)
	if g.version == 2 {
		return []setting{
			{"memory", "memory.max", memory, false},
			{"memory", "memory.swap.max", "0", true},
			{"pids", "pids.max", strconv.Itoa(l.Pids), false},
			{"cpu", "cpu.max", quota + " " + strconv.Itoa(cpuPeriodUs), false},
		}
	}
	return []setting{
		{"memory", "memory.limit_in_bytes", memory, false},
		{"memory", "memory.memsw.limit_in_bytes", memory, true},
		{"pids", "pids.max", strconv.Itoa(l.Pids), false},
		{"cpu", "cpu.cfs_period_us", strconv.Itoa(cpuPeriodUs), false},
		{"cpu", "cpu.cfs_quota_us", quota, false},
	}
}

// add moves a process, with all its threads, into the cgroup.
func (g *cgroup) add(pid int) error {
	for c, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("enter %s cgroup: %w", c, err)
		}
	}
	return nil
}

// oomKills is how many processes were killed for memory.
func (g *cgroup) oomKills() int {
	file := "memory.oom_control"
	if g.version == 2 {
		file = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(g.dirs["memory"], file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

// remove takes the directories away. A cgroup stays busy for a moment after
// its last process was reaped.
func (g *cgroup) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	for try := 0; ; try++ {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY || try == 100 {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// makeGroup makes name below the first parent that allows it and that hands
// the needed controllers down.
func makeGroup(parents []string, name string, need []string) (string, error) {
	var errs []error
	for _, parent := range parents {
		if err := delegate(parent, need); err != nil {
			errs = append(errs, err)
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		// A plain directory, of a controller that is not mounted, has no files.
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			_ = os.Remove(dir)
			errs = append(errs, fmt.Errorf("%s is not a cgroup", parent))
			continue
		}
		return dir, nil
	}
	return "", errors.Join(errs...)
}

// delegate makes sure that children of a unified cgroup have the controllers.
func delegate(parent string, need []string) error {
	if len(need) == 0 {
		return nil
	}
	file := filepath.Join(parent, "cgroup.subtree_control")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	have := strings.Fields(string(text))
	for _, c := range need {
		if slices.Contains(have, c) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+c), 0); err != nil {
			return fmt.Errorf("hand %s down: %w", c, err)
		}
	}
	return nil
}

func legacyParents(mount, own string) []string {
	parents := []string{filepath.Join(mount, own)}
	if os.Geteuid() == 0 && parents[0] != mount {
		parents = append(parents, mount)
	}
	return parents
}

// unifiedParents begins with the own cgroup; since one that has processes
// cannot hand controllers down, its parent follows.
func unifiedParents(root, own string) []string {
	parents := []string{filepath.Join(root, own)}
	if own != "/" && own != "" {
		parents = append(parents, filepath.Join(root, filepath.Dir(own)))
	}
	if os.Geteuid() == 0 && !slices.Contains(parents, root) {
		parents = append(parents, root)
	}
	return parents
}

func cgroupVersion(root string) int {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return 2
	}
	if _, err := os.Stat(filepath.Join(root, "memory", "cgroup.procs")); err == nil {
		return 1
	}
	return 0
}

// ownCgroups maps each controller, "" for the unified hierarchy, to the path
// of the cgroup this process is in.
func ownCgroups() (map[string]string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find own cgroup: %w", err)
	}
	return parseCgroups(string(text)), nil
}

func parseCgroups(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own
}

// cgroupOwner names this process for good: its pid namespace, its id there and
// when it began.
func cgroupOwner(pid int) (string, error) {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("name cgroup: %w", err)
	}
	start, err := processStart(pid)
	if err != nil {
		return "", fmt.Errorf("name cgroup: %w", err)
	}
	return fmt.Sprintf("%s%s-%d-%s", cgroupPrefix, strings.Trim(ns, "pid:[]"), pid, start), nil
}

// cgroupName is a new name for a job of this process.
func cgroupName() (string, error) {
	owner, err := cgroupOwner(os.Getpid())
	if err != nil {
		return "", err
	}
	return owner + "-" + rand.Text()[:10], nil
}
