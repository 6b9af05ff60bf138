package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep removes the cgroups, and kills the processes still in them, of
// sandboxes whose agent is gone: what a crash may leave behind. Mounts need no
// sweep: they end with the namespace. It is safe while other agents run.
func Sweep(opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	own, err := ownCgroups()
	if err != nil {
		return err
	}
	var parents []string
	switch cgroupVersion(opts.CgroupRoot) {
	case 2:
		parents = unifiedParents(opts.CgroupRoot, own[""])
	case 1:
		for _, c := range controllers() {
			parents = append(parents, legacyParents(filepath.Join(opts.CgroupRoot, c), own[c])...)
		}
	}
	var errs []error
	for _, parent := range parents {
		left, err := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*-*-*-*"))
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		for _, dir := range left {
			if orphaned(filepath.Base(dir)) {
				opts.Logger.Info("removing what a crashed sandbox left", "cgroup", dir)
				errs = append(errs, killGroup(dir), removeGroup(dir))
			}
		}
	}
	return errors.Join(errs...)
}

// orphaned says whether the process that made the named cgroup is gone. A
// name in another form, or from another pid namespace, is not ours to touch.
func orphaned(name string) bool {
	parts := strings.Split(strings.TrimPrefix(name, cgroupPrefix), "-")
	if len(parts) != 4 {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return false
	}
	self, err := cgroupOwner(os.Getpid())
	if err != nil || !strings.HasPrefix(self, cgroupPrefix+parts[0]+"-") {
		return false
	}
	start, err := processStart(pid)
	return err != nil || start != parts[2]
}

func killGroup(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return nil
}

// processStart is the start time, in clock ticks since boot, that with the pid
// names a process for good.
func processStart(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name in parentheses may contain anything, also parentheses.
	i := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[i+1:]))
	if i < 0 || len(fields) < 20 {
		return "", errors.New("unexpected form of /proc/PID/stat")
	}
	return fields[19], nil
}
