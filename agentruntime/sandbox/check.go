package sandbox

import (
	"context"
	"errors"
	"os"
	"time"
)

// Feature is one thing that the sandbox needs, as `lightwork doctor` shows it.
type Feature struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// Fix says what to do when it is not OK.
	Fix string `json:"fix,omitempty"`
}

// checkTimeout bounds the trial run.
const checkTimeout = 10 * time.Second

// Check finds out by trying: it makes a cgroup with limits, and runs /bin/true
// in a whole sandbox.
func Check(ctx context.Context, opts Options) []Feature {
	opts, err := opts.withDefaults()
	if err != nil {
		return []Feature{{Name: "options", Detail: err.Error()}}
	}
	return []Feature{checkUser(), checkCgroups(opts), checkTrial(ctx, opts), checkManifest()}
}

func checkUser() Feature {
	if os.Geteuid() == 0 {
		return Feature{Name: "two ids", OK: true, Detail: "commands and their supervisor run as different unprivileged users"}
	}
	return Feature{
		Name: "two ids", OK: true, Detail: "not root: commands and their supervisor share one user id",
		Fix: "run the sandbox agent as root to separate them",
	}
}

func checkCgroups(opts Options) Feature {
	f := Feature{Name: "memory, pids and cpu limits"}
	name, err := cgroupName()
	if err == nil {
		var g *cgroup
		if g, err = newCgroup(opts.CgroupRoot, name, limits{MemoryBytes: 64 << 20, Pids: 16, CPUs: 1}); err == nil {
			err = g.remove()
		}
	}
	if err != nil {
		f.Detail = err.Error()
		f.Fix = "run as root where cgroups are mounted, or let systemd delegate them: Delegate=memory pids cpu, DelegateSubgroup=node"
		return f
	}
	f.OK = true
	f.Detail = "cgroup v" + string(rune('0'+cgroupVersion(opts.CgroupRoot)))
	return f
}

func checkTrial(ctx context.Context, opts Options) Feature {
	f := Feature{Name: "namespaces and read-only system"}
	j := &job{
		plan: plan{
			Split: os.Geteuid() == 0, MountPath: "/workspace", Env: environment(nil),
			DiskBytes: 1 << 20, Inodes: 64, Commands: []planCommand{{Cmd: "true", Dir: "/workspace"}},
		},
		limits: limits{MemoryBytes: 64 << 20, Pids: 64, CPUs: 1}, timeout: checkTimeout,
	}
	opts.ArtifactDir, opts.Stream = "", nil
	out, err := confine(ctx, j, opts)
	if err == nil && (out.stopped != stopNone || len(out.runs) != 1 || out.runs[0].exitCode != 0) {
		err = errors.New("the trial command did not succeed")
	}
	if err != nil {
		f.Detail = err.Error()
		f.Fix = "needs Linux 5.12 or newer with user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0) and an unmasked /proc; in a container, run it privileged"
		return f
	}
	f.OK = true
	return f
}

func checkManifest() Feature {
	_, digest, err := HostManifest()
	if err != nil {
		return Feature{Name: "host toolchain", Detail: err.Error(), Fix: "the tools of the host must be readable"}
	}
	return Feature{Name: "host toolchain", OK: true, Detail: digest}
}
