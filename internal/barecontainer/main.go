// Command barecontainer runs a program as in an ordinary container: it cannot
// create namespaces or mount anything, and control groups are read-only. It needs
// root; -user runs the program as another user, and -no-landlock disables Landlock,
// as in an older kernel or a stricter container.
//
//	go run ./internal/barecontainer [-user ID] [-no-landlock] PROGRAM [ARGUMENT...]
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
)

func main() {
	user := flag.Int("user", 0, "")
	noLandlock := flag.Bool("no-landlock", false, "")
	flag.Parse()
	if err := run(*user, *noLandlock, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "barecontainer:", err)
		os.Exit(1)
	}
}

func run(user int, noLandlock bool, command []string) error {
	if len(command) == 0 {
		return errors.New("which program?")
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the following settings belong to a thread, and the program inherits them
	if err := freezeControlGroups(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}

	if user != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(user, user, user), syscall.Setresuid(user, user, user)); err != nil {
			return err
		}
	}

	if err := seccomp.Install(filter(noLandlock), 0); err != nil {
		return err
	}
	return syscall.Exec(path, command, os.Environ())
}

// freezeControlGroups makes control groups read-only in a new mount namespace.
func freezeControlGroups() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("needs root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/sys/fs/cgroup", unix.AT_RECURSIVE, &attr); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("make control groups read-only: %w", err)
	}
	return nil
}

// kept are the capabilities that container runtimes leave to root by default.
var kept = []uint{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

func dropCapabilities() error {
	var low uint32
	for _, c := range kept {
		low |= 1 << c
	}

	for c := uint(0); c < 64; c++ {
		if c < 32 && low&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}

	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: low, Permitted: low, Inheritable: 0}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// filter refuses new namespaces and mounts, as the filters of container runtimes
// do, and optionally Landlock.
func filter(noLandlock bool) []unix.SockFilter {
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	prog := seccomp.Begin(seccomp.Return(unix.SECCOMP_RET_ALLOW))
	prog = append(prog,
		seccomp.Jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		seccomp.Arg(0),
		seccomp.Jump(unix.BPF_JSET, namespaces, 0, 1),
		seccomp.Refuse(unix.EPERM),
		seccomp.Return(unix.SECCOMP_RET_ALLOW),
		seccomp.Jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		seccomp.Refuse(unix.ENOSYS), // programs then fall back to clone, whose flags a filter can read
	)
	for _, number := range []uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT_SETATTR} {
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, number, 0, 1), seccomp.Refuse(unix.EPERM))
	}
	if noLandlock {
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, unix.SYS_LANDLOCK_CREATE_RULESET, 0, 1), seccomp.Refuse(unix.ENOSYS))
	}
	return append(prog, seccomp.Return(unix.SECCOMP_RET_ALLOW))
}
