// Package watchdog bounds the memory and the number of processes where no control
// groups can do so. It repeatedly examines a process and all its descendants, and
// reports when they exceed a limit together.
//
// It is weaker than a control group: processes may exceed a limit until the next
// check, and memory that the kernel uses for them (buffers of pipes and sockets,
// page tables) is not counted.
package watchdog

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits are the limits for Watch. 0 means no limit.
type Limits struct {
	MemoryBytes int64
	Tasks       int           // processes and threads
	Every       time.Duration // between two cheap checks; 20 ms if 0
}

// MemoryError and TasksError say which limit was exceeded.
type (
	MemoryError struct{ Used, Limit int64 }
	TasksError  struct{ Used, Limit int }
)

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the processes used %d MiB of memory, more than the limit of %d", e.Used>>20, e.Limit>>20)
}

func (e *TasksError) Error() string {
	return fmt.Sprintf("there were %d processes and threads, more than the limit of %d", e.Used, e.Limit)
}

// Checks use at most a twentieth of a processor, and run at least once a second.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = time.Second
	share         = 20
)

// Watch checks root and all its descendants until ctx ends (then it returns nil) or
// until they exceed a limit (*MemoryError or *TasksError). It kills nothing.
func Watch(ctx context.Context, root int, l Limits) error {
	pause := max(l.Every, shortestPause)
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}

		began := time.Now()
		if err := look(root, l); err != nil {
			return err
		}
		timer.Reset(min(max(pause, share*time.Since(began)), longestPause))
	}
}

// look first checks a number that is cheap to read and never too low.
func look(root int, l Limits) error {
	tree := Below(root)
	tasks, most := 0, int64(0)
	for _, p := range tree {
		s := readStatus(p.PID)
		tasks += p.Threads
		most += s.own + s.unseen
	}

	if l.Tasks > 0 && tasks > l.Tasks {
		return &TasksError{tasks, l.Tasks}
	}
	if l.MemoryBytes == 0 || most <= l.MemoryBytes {
		return nil
	}
	if used := measure(tree); used > l.MemoryBytes {
		return &MemoryError{used, l.MemoryBytes}
	}

	return nil
}

// Process is one process of a tree.
type Process struct {
	PID, Parent, Threads int
}

// Below lists root, if it lives, and its descendants. Processes that start or lose
// their parent during the call may be missing; the next call finds them.
func Below(root int) []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()

	names, _ := dir.Readdirnames(-1)

	var tree []Process
	children := map[int][]Process{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}

		p, ok := readProcess(pid)
		switch {
		case !ok:
		case pid == root:
			tree = append(tree, p)
		default:
			children[p.Parent] = append(children[p.Parent], p)
		}
	}

	queue := []int{root}
	for len(queue) > 0 {
		for _, p := range children[queue[0]] {
			tree = append(tree, p)
			queue = append(queue, p.PID)
		}
		queue = queue[1:]
	}

	return tree
}

// Threads returns the number of threads of a process; 0 if it has ended.
func Threads(pid int) int {
	p, _ := readProcess(pid)
	return p.Threads
}

// readProcess parses "pid (name) state ppid ..."; the name may contain anything.
func readProcess(pid int) (Process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	end := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 18 {
		return Process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	threads, _ := strconv.Atoi(fields[17])
	return Process{pid, parent, max(threads, 1)}, true
}

// status has the numbers that are cheap to read.
type status struct {
	own    int64 // memory of the process itself, in core or swapped out
	unseen int64 // address space that may be shared memory without a file
}

func readStatus(pid int) (s status) {
	values := readSizes(fmt.Sprintf("/proc/%d/status", pid))
	s.own = values["RssAnon"] + values["VmSwap"]
	s.unseen = max(0, values["VmSize"]-values["VmData"]-values["VmStk"])
	return s
}

// readSizes parses the lines "Name:  123 kB" of a file, in bytes.
func readSizes(file string) map[string]int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}

	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) == 2 && fields[1] == "kB" {
			n, _ := strconv.ParseInt(fields[0], 10, 64)
			values[name] = n << 10
		}
	}

	return values
}

// measure returns the memory of all processes together. Memory shared since a fork
// counts once. Shared mappings without a file count with their whole size, because
// a process may fill one and then unmap it from itself.
func measure(tree []Process) (sum int64) {
	shared := map[string]int64{}
	for _, p := range tree {
		exact := readSizes(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID))
		if anon, ok := exact["Pss_Anon"]; ok {
			sum += anon + exact["SwapPss"]
		} else {
			sum += readStatus(p.PID).own
		}
		sum += addShared(p.PID, shared)
	}

	for _, size := range shared {
		sum += size
	}
	return sum
}

// maxMaps bounds the list of mappings that is read; a process with a longer one
// counts as using unlimited memory.
const (
	maxMaps = 8 << 20
	tooMuch = 1 << 50
)

// addShared adds the shared mappings without a file of a process, by inode.
func addShared(pid int, shared map[string]int64) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0
	}
	defer f.Close()

	in := &io.LimitedReader{R: f, N: maxMaps}
	sizes := map[string]int64{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		// 7f52a4000000-7f52a8000000 rw-s 00000000 00:01 2051  /dev/zero (deleted)
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasSuffix(fields[1], "s") || !anonymous(fields[5]) {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		first, _ := strconv.ParseUint(from, 16, 64)
		last, _ := strconv.ParseUint(to, 16, 64)
		sizes[fields[3]+" "+fields[4]] += int64(last - first)
	}

	for inode, size := range sizes {
		shared[inode] = max(shared[inode], size)
	}
	if in.N == 0 {
		return tooMuch
	}
	return 0
}

// anonymous reports whether the name of a shared mapping is not that of a file on a
// disk.
func anonymous(name string) bool {
	for _, prefix := range []string{"/dev/zero", "/memfd:", "/SYSV", "[anon_shmem"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
