package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/internal/watchdog"
)

// bounds limits the resources of a job: with a control group or, without one, with
// a watchdog and a place.
type bounds struct {
	group *cgroup.Group // at LevelFull
	place *place        // at LevelLandlock
}

const (
	// guardTasks and guardMemory are the needs of the guard of LevelLandlock.
	guardTasks  = 16
	guardMemory = 24 << 20
	// spareData is how much address space a process may reserve beyond the memory
	// of its job, because stacks of threads and heaps reserve more than they use.
	// It bounds the growth of one process between two checks of the watchdog.
	spareData = 512 << 20
	maxFiles  = 1024
)

// newBounds creates the bounds and enters in the plan the limits that process 1
// must set.
func newBounds(j *job, opts Options) (*bounds, error) {
	if opts.Level == LevelFull {
		group, err := cgroup.New(opts.CgroupRoot, j.limits)
		if missing := (*cgroup.UnavailableError)(nil); errors.As(err, &missing) {
			return nil, &ConfineError{Missing: missing.Missing}
		}
		return &bounds{group: group}, err
	}

	j.plan.Rlimits = &rlimits{
		DataBytes: uint64(j.memory() + spareData), OpenFiles: maxFiles,
		Tasks: uint64(j.limits.Pids), CPUs: int(math.Ceil(j.limits.CPUs)),
	}
	if opts.Level == LevelLimits {
		return &bounds{}, nil
	}

	// Without namespaces the commands run as nobody or as the agent's own user.
	j.plan.Split = false
	user := commandUser()
	j.plan.Apart = user != os.Geteuid()
	p, err := newPlace(opts.WorkDir, user)
	if err != nil {
		return nil, &ConfineError{Missing: []string{err.Error()}}
	}
	p.settle(&j.plan)
	j.plan.Rlimits.FileBytes = uint64(j.plan.DiskBytes)
	j.plan.Rlimits.Tasks += uint64(guardTasks + tasksOf(user))
	return &bounds{place: p}, nil
}

// memory is the job's memory for processes, without its files.
func (j *job) memory() int64 { return j.limits.MemoryBytes - j.plan.DiskBytes }

// start starts process 1, in the group if there is one.
func (b *bounds) start(cmd *exec.Cmd) error {
	if b.group == nil {
		return cmd.Start()
	}
	return b.group.Start(cmd)
}

// watch returns what tells that the job is beyond its bounds, where the kernel
// does not see to that. root is the pid of its topmost process.
// watch returns a check that reports when the job exceeds bounds that the kernel
// does not enforce.
func (b *bounds) watch(j *job, root int) func(context.Context) error {
	l := watchdog.Limits{MemoryBytes: j.memory(), Tasks: j.limits.Pids}
	switch {
	case b.group != nil:
		return func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}
	case b.place == nil:
		return func(ctx context.Context) error { return watchdog.Watch(ctx, root, l) }
	}

	l.MemoryBytes += guardMemory
	l.Tasks += guardTasks
	return func(ctx context.Context) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		disk := make(chan error, 1)
		go func() {
			defer end()
			disk <- b.place.watchDisk(ctx, j.plan.DiskBytes, j.plan.Inodes, root)
		}()
		err := watchdog.Watch(ctx, root, l)
		end()
		return errors.Join(err, <-disk)
	}
}

// version is the version of the control groups; 0 without them.
func (b *bounds) version() int {
	if b.group == nil {
		return 0
	}
	return b.group.Version()
}

// events returns the kernel's counts of processes killed for memory and of refused
// forks.
func (b *bounds) events() (oomKills, forksRefused int) {
	if b.group == nil {
		return 0, 0
	}
	return b.group.OOMKills(), b.group.ForksRefused()
}

func (b *bounds) remove() error {
	var errs []error
	if b.group != nil {
		errs = append(errs, b.group.Remove())
	}
	if b.place != nil {
		errs = append(errs, b.place.remove())
	}
	return errors.Join(errs...)
}

// commandUser is the user that runs commands without a user namespace: nobody, if
// this process may change to it, else its own user.
func commandUser() int {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if os.Geteuid() != 0 || unix.Capget(&head, &data[0]) != nil {
		return os.Geteuid()
	}

	for _, c := range []uint{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_KILL} {
		if data[0].Effective&(1<<c) == 0 {
			return os.Geteuid()
		}
	}

	if !isMapped("/proc/self/uid_map", hostCommandID) || !isMapped("/proc/self/gid_map", hostCommandID) {
		return os.Geteuid() // root of a user namespace without that id
	}
	return hostCommandID
}

// isMapped reports whether a user namespace maps an id. Each line of a map is the
// first id inside, the first id outside, and their number.
func isMapped(file string, id uint64) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count uint64
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && id >= inside && id-inside < count {
			return true
		}
	}
	return false
}

// tasksOf counts the existing processes and threads of a user, because the kernel
// counts them towards RLIMIT_NPROC too.
func tasksOf(uid int) (n int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || int(st.Uid) != uid {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			n += watchdog.Threads(pid)
		}
	}
	return n
}
