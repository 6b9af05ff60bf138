package sandbox

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// initCaps are the capabilities that process 1 starts with. They all apply only to
// its own namespaces.
func initCaps() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP,
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_KILL,
	}
}

// takeIdentity changes from the host's root id, if init was started as root, to an
// unprivileged one.
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

	// A change of ids clears the parent-death signal, so it is set again here.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent death signal: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("clear dumpable: %w", err)
	}

	return nil
}

// isolate sets up the namespaces: host name, view of the cgroups, network, keys.
func isolate(loopback bool) error {
	unix.Umask(0o022) // make the modes of a job's files independent of the agent's umask
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := unix.Setdomainname([]byte("(none)")); err != nil {
		return fmt.Errorf("set domain name: %w", err)
	}

	// The agent has put this process into its cgroups by now, so the new namespace
	// hides where on the host they are.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare cgroup namespace: %w", err)
	}

	if loopback {
		if err := loopbackUp(); err != nil {
			return err
		}
	}

	// Join a new key ring, so that the agent's cannot be searched.
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

// dropPrivileges leaves the thread that starts commands only the capabilities for
// changing to nobody and for killing. It makes sure that no program it executes can
// ever gain a capability: no_new_privs, an empty bounding set, no ambient set. Then
// it sets up the inherited barriers: Landlock, which opens the allowed paths and so
// comes first, then the system call filter.
func dropPrivileges(p *plan) (walls, error) {
	// For changing a command's user to nobody, and for reading and ending what it
	// leaves.
	if err := dropCapabilities(unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_DAC_OVERRIDE); err != nil {
		return walls{}, err
	}
	abi, err := landlock(landlockRules(landlockVersion(), p.Loopback), insideRules(p))
	if err != nil {
		return walls{}, err
	}
	return walls{Landlock: abi}, filterSyscalls(p.Level, keepers{})
}

// withdraw confines process 1 itself where there are no namespaces, before it reads
// the first byte of the buyer's input. Its guard is not confined, and nothing here
// can reach it.
func withdraw(p *plan) (walls, error) {
	unix.Umask(0o077)

	// Become the parent of the commands' orphans, to end them with their command.
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

// dropCapabilities drops all capabilities but these, and prevents gaining new ones.
func dropCapabilities(allowed ...uint) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}

	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL || err == unix.EPERM && len(allowed) == 0 {
			break // no such capability in this kernel, or none to drop
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}

	var keep uint32
	for _, c := range allowed {
		keep |= 1 << c
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// asCommandUser runs f with the file system identity of the commands, so that it
// creates files that belong to them and reaches only files that they can reach.
func asCommandUser(p *plan, f func() error) error {
	if !p.Split {
		return f()
	}

	// setfsuid does not report errors; calling it again returns the id in effect.
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
