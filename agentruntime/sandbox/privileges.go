package sandbox

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// initCaps are the capabilities process 1 is born with, all of them only over
// its own namespaces.
func initCaps() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP,
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_KILL,
	}
}

// takeIdentity leaves the host's root id, if that is what init was started
// with, for an unprivileged one.
func takeIdentity(split bool) error {
	if split {
		if err := syscall.Setgroups([]int{}); err != nil {
			return fmt.Errorf("setgroups: %w", err)
		}
		if err := syscall.Setresgid(splitID, splitID, splitID); err != nil {
			return fmt.Errorf("setresgid: %w", err)
		}
		if err := syscall.Setresuid(splitID, splitID, splitID); err != nil {
			return fmt.Errorf("setresuid: %w", err)
		}
	}

	// A change of ids clears the death signal, so it is asked for again here.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("clear dumpable: %w", err)
	}

	return nil
}

// isolate finishes the namespaces: names, the cgroup view, the network, keys.
func isolate(loopback bool) error {
	unix.Umask(0o022) // whatever the agent's is, a job's files come out the same
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := unix.Setdomainname([]byte("(none)")); err != nil {
		return fmt.Errorf("set domain name: %w", err)
	}

	// Only now, after the agent has put this process into its cgroups, does
	// the namespace hide where on the host they are.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare cgroup namespace: %w", err)
	}

	if loopback {
		if err := loopbackUp(); err != nil {
			return err
		}
	}

	// A key ring of its own, so that the agent's cannot be searched.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS {
		return fmt.Errorf("join session keyring: %w", err)
	}
	if err := syscall.Setrlimit(unix.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("limit core files: %w", err)
	}

	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	defer unix.Close(fd)

	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// dropPrivileges leaves the thread that starts commands with what it needs to
// become nobody and to kill, and makes sure that nothing it executes ever has
// more than nothing: no_new_privs, an empty bounding set, no ambient set. The
// walls that are inherited follow: Landlock, which opens what it allows and so
// comes first, then the filter of system calls.
func dropPrivileges(p *plan) (walls, error) {
	// What a command becomes nobody with, and what reads and ends its leavings.
	if err := dropCapabilities(unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_DAC_OVERRIDE); err != nil {
		return walls{}, err
	}
	abi, err := landlock(landlockRules(landlockVersion(), p.Loopback), insideRules(p))
	if err != nil {
		return walls{}, err
	}
	return walls{Landlock: abi}, filterSyscalls(p.Level, keepers{})
}

// withdraw is how process 1 confines itself where there are no namespaces: it
// takes what it can from itself, and then reads the first byte that a stranger
// wrote. Its guard is in no such confinement, so nothing here reaches it.
func withdraw(p *plan) (walls, error) {
	unix.Umask(0o077)

	// Orphans of the commands come here, to be ended with their command.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return walls{}, fmt.Errorf("become subreaper: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return walls{}, fmt.Errorf("clear dumpable: %w", err)
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS && err != unix.EPERM {
		return walls{}, fmt.Errorf("join session keyring: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return walls{}, err
	}

	kin := keepers{pids: ancestors(), sameUser: !p.Apart}
	abi, err := landlock(landlockRules(landlockVersion(), false), outsideRules(p))
	if err != nil {
		return walls{}, err
	}
	if abi == 0 {
		return walls{}, errors.New("this kernel has no Landlock, or it is disabled")
	}

	return walls{Landlock: abi}, filterSyscalls(p.Level, kin)
}

// dropCapabilities keeps the named ones, and gains none from then on.
func dropCapabilities(kept ...uint) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}

	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL || err == unix.EPERM && len(kept) == 0 {
			break // beyond the kernel's last capability, or there is none to give
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}

	var keep uint32
	for _, c := range kept {
		keep |= 1 << c
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// asCommandUser runs f with the file system identity of the commands, so that
// what it creates is theirs and what they cannot reach it cannot reach.
func asCommandUser(p *plan, f func() error) error {
	if !p.Split {
		return f()
	}

	// setfsuid reports no errors: the second call returns the id in effect.
	_, _ = unix.SetfsgidRetGid(commandID)
	_, _ = unix.SetfsuidRetUid(commandID)
	defer func() {
		_, _ = unix.SetfsuidRetUid(splitID)
		_, _ = unix.SetfsgidRetGid(splitID)
	}()

	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != commandID {
		return fmt.Errorf("take the commands' file system id: have %d: %w", now, err)
	}
	return f()
}
