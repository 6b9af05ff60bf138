package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep removes the groups below root, and kills the processes still in them,
// of processes that are gone: what a crash may leave behind. It names what it
// removed, and is safe while others of this machine's processes have groups.
func Sweep(root string) (removed []string, err error) {
	own, err := ownGroups()
	if err != nil {
		return nil, err
	}

	var parents []string
	switch Version(root) {
	case 2:
		parents = unifiedParents(root, own[""])
	case 1:
		for _, c := range controllers() {
			parents = append(parents, legacyParents(filepath.Join(root, c), own[c])...)
		}
	}

	var errs []error
	for _, parent := range parents {
		left, err := filepath.Glob(filepath.Join(parent, prefix+"*-*-*-*"))
		if err != nil {
			return removed, fmt.Errorf("sweep cgroups: %w", err)
		}

		for _, dir := range left {
			if !isOrphan(filepath.Base(dir)) {
				continue
			}
			err := errors.Join(killGroup(dir), removeGroup(dir))
			switch {
			case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS): // another user's, who sweeps it
			case err != nil:
				errs = append(errs, err)
			default:
				removed = append(removed, dir)
			}
		}
	}

	return removed, errors.Join(errs...)
}

// isOrphan says whether the process that made the named cgroup is gone. A
// name in another form, or from another pid namespace, is not ours to touch.
func isOrphan(name string) bool {
	parts := strings.Split(strings.TrimPrefix(name, prefix), "-")
	if len(parts) != 4 {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return false
	}
	self, err := owner(os.Getpid())
	if err != nil || !strings.HasPrefix(self, prefix+parts[0]+"-") {
		return false
	}
	start, err := processStart(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	return err == nil && start != parts[2] // what could not be read may be alive
}

// killGroup kills until nothing is left: in the older form what is in a group
// may fork meanwhile.
func killGroup(dir string) error {
	// The unified form kills all at once, also what forks meanwhile, and does
	// not wait until they are gone.
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)

	for range killRounds {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("kill cgroup: %w", err)
		}

		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}

		time.Sleep(time.Millisecond)
	}

	return fmt.Errorf("kill cgroup %s: it does not get empty", dir)
}

// killRounds, of a millisecond each.
const killRounds = 2000

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
