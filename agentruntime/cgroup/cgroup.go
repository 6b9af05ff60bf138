// Package cgroup bounds processes by the kernel's control groups: memory,
// processes and processor time, by the unified hierarchy (version 2) where it is
// delegated, else by the older one as root.
package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultRoot is where cgroup file systems are mounted.
const DefaultRoot = "/sys/fs/cgroup"

// Limits are what a group enforces. 0 leaves that one out.
type Limits struct {
	MemoryBytes int64
	Pids        int // processes and threads
	CPUs        float64
}

// Zero says that nothing is limited.
func (l Limits) Zero() bool { return l == Limits{} }

// UnavailableError says why limits cannot be enforced here, and what would help.
type UnavailableError struct{ Missing []string }

func (e *UnavailableError) Error() string { return strings.Join(e.Missing, "; ") }

const cpuPeriodUs = 100_000

// controllers are what a group has, limited or not.
func controllers() []string { return []string{"memory", "pids", "cpu"} }

// Group is a set of directories: one in a unified hierarchy, one a controller
// in the older form.
type Group struct {
	version int
	dirs    map[string]string // controller: directory
}

// prefix begins every name; who made the cgroup follows, so that a later
// process can tell a leftover from a neighbour.
const prefix = "lightwork-"

// New makes a group with a new name below the one this process is in or, for
// root, where that is not possible, at the top of the hierarchy mounted at root.
// What keeps it from doing so is an *UnavailableError, and nothing is left then.
func New(root string, l Limits) (*Group, error) {
	name, err := newName()
	if err != nil {
		return nil, err
	}
	return newNamed(root, name, l)
}

func newNamed(root, name string, l Limits) (*Group, error) {
	g := &Group{version: Version(root), dirs: map[string]string{}}
	if g.version == 0 {
		return nil, &UnavailableError{Missing: []string{"no cgroup file system at " + root + ": mount one, or run where there is one"}}
	}
	own, err := ownGroups()
	if err != nil {
		return nil, &UnavailableError{Missing: []string{err.Error()}}
	}
	missing := g.create(root, name, own, l)
	if len(missing) > 0 {
		_ = g.Remove()
		return nil, &UnavailableError{Missing: missing}
	}
	return g, nil
}

func (g *Group) create(root, name string, own map[string]string, l Limits) (missing []string) {
	if g.version == 2 {
		dir, err := makeGroup(unifiedParents(root, own[""]), name, controllers())
		if err != nil {
			return []string{fmt.Sprintf("memory, pids and cpu limits: %v (give the service Delegate=yes and DelegateSubgroup=, or run as root)", err)}
		}
		for _, c := range controllers() {
			g.dirs[c] = dir
		}
	} else {
		missing = g.createLegacy(root, name, own)
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

// createLegacy makes a directory a controller. What all of them lack for the
// same reason is said once.
func (g *Group) createLegacy(root, name string, own map[string]string) (missing []string) {
	causes := map[string]bool{}
	for _, c := range controllers() {
		dir, err := makeGroup(legacyParents(filepath.Join(root, c), own[c]), name, nil)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s limit: %v (mount the %s controller and run as root)", c, err, c))
			causes[cause(err)] = true
			continue
		}
		g.dirs[c] = dir
	}

	if len(missing) == len(controllers()) && len(causes) == 1 {
		return []string{fmt.Sprintf("memory, pids and cpu limits: nothing can be made below %s: %s (mount the controllers and run as root)", root, slices.Collect(maps.Keys(causes))[0])}
	}
	return missing
}

// cause is an error without the path that it is about.
func cause(err error) string {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

type setting struct {
	controller, file, value string
	optional                bool // where the kernel has no swap accounting
}

// settings lists what the limits are in the files of the hierarchy.
func (g *Group) settings(l Limits) (all []setting) {
	if l.MemoryBytes > 0 {
		memory := strconv.FormatInt(l.MemoryBytes, 10)
		if g.version == 2 {
			all = append(all, setting{"memory", "memory.max", memory, false}, setting{"memory", "memory.swap.max", "0", true})
		} else {
			all = append(all, setting{"memory", "memory.limit_in_bytes", memory, false}, setting{"memory", "memory.memsw.limit_in_bytes", memory, true})
		}
	}

	if l.Pids > 0 {
		all = append(all, setting{"pids", "pids.max", strconv.Itoa(l.Pids), false})
	}
	if l.CPUs > 0 {
		period, quota := strconv.Itoa(cpuPeriodUs), strconv.FormatInt(max(1000, int64(l.CPUs*cpuPeriodUs)), 10)
		if g.version == 2 {
			all = append(all, setting{"cpu", "cpu.max", quota + " " + period, false})
		} else {
			all = append(all, setting{"cpu", "cpu.cfs_period_us", period, false}, setting{"cpu", "cpu.cfs_quota_us", quota, false})
		}
	}
	return all
}

// Version is that of the hierarchy, 1 or 2.
func (g *Group) Version() int { return g.version }

// OOMKills is how many processes were killed for memory.
func (g *Group) OOMKills() int {
	file := "memory.oom_control"
	if g.version == 2 {
		file = "memory.events"
	}
	return readEvent(filepath.Join(g.dirs["memory"], file), "oom_kill ")
}

// ForksRefused is how often a process or thread was one too many.
func (g *Group) ForksRefused() int {
	return readEvent(filepath.Join(g.dirs["pids"], "pids.events"), "max ")
}

// readEvent finds a counter in a file of them; 0 where there is none.
func readEvent(file, name string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

// Kill ends every process in the group, also one that left its process group or
// its parents behind.
func (g *Group) Kill() error {
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, killGroup(dir))
	}
	return errors.Join(errs...)
}

// Remove takes the directories away. A cgroup stays busy for a moment after
// its last process was reaped.
func (g *Group) Remove() error {
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

// owner names this process for good: its pid namespace, its id there and
// when it began.
func owner(pid int) (string, error) {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("name cgroup: %w", err)
	}
	start, err := processStart(pid)
	if err != nil {
		return "", fmt.Errorf("name cgroup: %w", err)
	}
	return fmt.Sprintf("%s%s-%d-%s", prefix, strings.Trim(ns, "pid:[]"), pid, start), nil
}

// newName is a new name for a group of this process.
func newName() (string, error) {
	by, err := owner(os.Getpid())
	if err != nil {
		return "", err
	}
	return by + "-" + rand.Text()[:10], nil
}
