package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

// Feature is one requirement or option of the sandbox, as shown by `lightwork
// doctor`.
type Feature struct {
	Name string `json:"name"`
	// Present says that this machine has the feature, OK that jobs can run: the
	// machine may lack an additional barrier, but not a required one.
	Present bool   `json:"present"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail,omitempty"`
	// Fix says what to do if the feature is not OK.
	Fix string `json:"fix,omitempty"`
}

// checkTimeout bounds the trial run.
const checkTimeout = 10 * time.Second

// Check finds the firmest level that works on this machine by running /bin/true in
// a complete sandbox, at the firmest level first. If not even least works, the
// level is empty, and a feature that is not OK says why. The order of the features
// never changes; new ones are added at the end.
func Check(ctx context.Context, opts Options, least Level) (Level, []Feature) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", []Feature{{Name: "options", Detail: err.Error()}}
	}

	failed := map[Level]error{}
	level := Level("")
	for _, l := range levels() {
		if opts.Level = l; !l.AtLeast(least) {
			break
		}
		if failed[l] = try(ctx, opts); failed[l] == nil {
			level = l
			break
		}
	}

	all := []Feature{checkUser(), checkCgroups(opts, least), checkNamespaces(level, least, failed), checkManifest(), checkFilter(), checkLandlock(least), checkLevel(level, least, failed)}
	for i := range all {
		all[i].Present = all[i].Present || all[i].OK && all[i].Fix == ""
	}
	return level, all
}

// Try runs /bin/true in a complete sandbox with the given options, and returns why
// that fails.
func Try(ctx context.Context, opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	return try(ctx, opts)
}

func try(ctx context.Context, opts Options) error {
	j := &job{
		plan: plan{
			Split: os.Geteuid() == 0, MountPath: "/workspace", Env: environment(nil, nil),
			DiskBytes: 1 << 20, Inodes: 64, Commands: []planCommand{{Cmd: "true", Dir: "/workspace"}},
		},
		limits: cgroup.Limits{MemoryBytes: 64 << 20, Pids: 64, CPUs: 1}, timeout: checkTimeout,
	}
	opts.ArtifactDir, opts.Stream = "", nil
	out, err := confine(ctx, j, opts)
	if err == nil && (out.stopped != stopNone || len(out.runs) != 1 || out.runs[0].exitCode != 0) {
		err = errors.New("the trial command did not succeed")
	}
	return err
}

func checkUser() Feature {
	if commandUser() != os.Geteuid() {
		return Feature{Name: "two ids", OK: true, Detail: "commands and their supervisor run as different unprivileged users"}
	}
	f := Feature{Name: "two ids", OK: true, Detail: "not root: commands and their supervisor share one user id", Fix: "run the sandbox agent as root to separate them"}
	if os.Geteuid() == 0 {
		f.Detail, f.Fix = "root without the right to become another user", "give the container CAP_SETUID, CAP_SETGID, CAP_CHOWN and CAP_KILL"
	}
	return f
}

func checkCgroups(opts Options, least Level) Feature {
	f := Feature{Name: "memory, pids and cpu limits"}
	g, err := cgroup.New(opts.CgroupRoot, cgroup.Limits{MemoryBytes: 64 << 20, Pids: 16, CPUs: 1})
	if err == nil {
		err = g.Remove()
	}
	if err != nil {
		f.OK = least != LevelFull
		f.Detail = strings.TrimPrefix(err.Error(), f.Name+": ")
		f.Fix = "run as root where cgroups are mounted, or let systemd delegate them: Delegate=memory pids cpu, DelegateSubgroup=node"
		return f
	}
	f.OK = true
	f.Detail = fmt.Sprintf("cgroup v%d", g.Version())
	return f
}

// checkNamespaces uses the result of the trials, because only a trial shows whether
// namespaces work.
func checkNamespaces(level, least Level, failed map[Level]error) Feature {
	f := Feature{Name: "namespaces and read-only system", OK: level.hasNamespaces()}
	if f.OK {
		return f
	}
	err := failed[LevelFull]
	if failed[LevelLimits] != nil {
		err = failed[LevelLimits]
	}
	f.OK, f.Detail = !least.hasNamespaces() && level != "", fmt.Sprint(err)
	f.Fix = "needs Linux 5.14 or newer with user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0) and an unmasked /proc; in a container, run it privileged"
	return f
}

func checkLevel(level, least Level, failed map[Level]error) Feature {
	f := Feature{Name: "confinement", OK: level != "", Detail: fmt.Sprintf("level %s", level)}
	if !f.OK {
		f.Detail = fmt.Sprintf("no jobs can run: level %s is required and does not work here", least)
		f.Fix = "fix the features above"
		if err := failed[LevelLandlock]; err != nil {
			f.Detail += ": " + err.Error()
		}
		if least != LevelLandlock {
			f.Fix += ", or allow a lower level in sandbox.least_confinement"
		}
		return f
	}

	switch level {
	case LevelLimits:
		f.Detail += ": namespaces, rlimits and a watchdog, no cgroups"
	case LevelLandlock:
		f.Detail += ": files by Landlock, no sockets, rlimits and a watchdog; no namespaces and no cgroups"
	}
	return f
}

// checkFilter only queries the kernel, because a filter cannot be removed again.
func checkFilter() Feature {
	f := Feature{Name: "system call filter"}
	_, err := buildFilter(LevelFull, keepers{})
	if err == nil {
		action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
			err = errno
		}
	}

	if err != nil {
		f.Detail = err.Error()
		f.Fix = "needs Linux with CONFIG_SECCOMP_FILTER on amd64 or arm64"
		return f
	}
	f.OK = true
	f.Detail = fmt.Sprintf("seccomp, a list of %d allowed calls", len(commonCalls())+len(archCalls())+len(argumentRules()))
	return f
}

// checkLandlock is OK either way if there are namespaces, where Landlock is an
// additional barrier behind the mounts.
func checkLandlock(least Level) Feature {
	abi := landlockVersion()
	f := Feature{Name: "landlock", OK: abi > 0 || least.hasNamespaces(), Present: abi > 0, Detail: fmt.Sprintf("version %d", abi)}
	switch {
	case abi == 0:
		f.Detail = "not in this kernel, or switched off: the mounts and namespaces hold without it"
		f.Fix = "Linux 5.13 or newer with landlock in the lsm= list adds a second wall"
	case abi < 4:
		f.Detail += ": files"
	case abi < 6:
		f.Detail += ": files, TCP"
	default:
		f.Detail += ": files, TCP, signals, abstract sockets"
	}

	return f
}

func checkManifest() Feature {
	_, digest, err := HostManifest()
	if err != nil {
		return Feature{Name: "host toolchain", Detail: err.Error(), Fix: "the tools of the host must be readable"}
	}
	return Feature{Name: "host toolchain", OK: true, Detail: digest}
}
