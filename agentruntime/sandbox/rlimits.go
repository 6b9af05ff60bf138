package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// set applies the limits to this process and its descendants. The processors apply
// to the calling thread, which starts the commands.
func (r *rlimits) set() error {
	if r == nil {
		return nil
	}

	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		{"memory", unix.RLIMIT_DATA, r.DataBytes},
		{"processes", unix.RLIMIT_NPROC, r.Tasks},
		{"open files", unix.RLIMIT_NOFILE, r.OpenFiles},
		{"file size", unix.RLIMIT_FSIZE, r.FileBytes},
	} {
		if l.most == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
		most := min(l.most, now.Max)
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}

	return useProcessors(r.CPUs)
}

// useProcessors restricts the calling thread to some of its processors. The choice
// depends on the process, so that not all jobs share one processor.
func useProcessors(n int) error {
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("limit processors: %w", err)
	}
	if n <= 0 || n >= all.Count() {
		return nil
	}

	var list []int
	for cpu := 0; len(list) < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			list = append(list, cpu)
		}
	}

	for i := range n {
		some.Set(list[(os.Getpid()+os.Getppid()+i)%len(list)])
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return fmt.Errorf("limit processors: %w", err)
	}
	return nil
}

// ancestors returns this process and its ancestors: agent, node and whatever
// started them.
func ancestors() []int {
	list := []int{os.Getpid()}
	for pid := os.Getppid(); pid > 0 && len(list) < maxAncestors; {
		list = append(list, pid)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}

	return list
}

// maxAncestors bounds the filter that lists them.
const maxAncestors = 24
