package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
)

// Rights over files. The right to make devices is never granted.
const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockWrite = landlockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	landlockFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landlockDevices = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockVersion returns the kernel's version of Landlock, 0 if it is missing or
// disabled.
func landlockVersion() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// landlockRules returns everything that this version of Landlock can deny.
func landlockRules(abi int, network bool) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1} // version 1
	if abi >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 && !network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// pathRule allows access to a file, or to a folder and everything below it.
type pathRule struct {
	path     string
	access   uint64
	optional bool // skipped if the machine has no such path
}

// insideRules are an additional barrier behind the mounts: commands read and
// execute below the root, and write in the writable directories.
func insideRules(p *plan) []pathRule {
	return []pathRule{
		{"/", landlockRead, false},
		{"/dev", landlockDevices, false},
		{p.MountPath, landlockWrite, false},
		{p.Tmp, landlockWrite, false},
		{p.Artifacts, landlockWrite, false},
		{sharedMemory, landlockWrite, false},
	}
}

// outsideRules are the only barrier around files where there are no mounts. They
// allow the host's toolchain, some files about the machine, and the job's folders.
// /proc shows no processes, not even the commands' own.
func outsideRules(p *plan) []pathRule {
	rules := []pathRule{
		{p.MountPath, landlockWrite, false},
		{p.Tmp, landlockWrite, false},
		{p.Artifacts, landlockWrite, false},
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		rules = append(rules, pathRule{"/dev/" + name, landlockDevices, false})
	}

	for _, name := range []string{
		"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version",
		"sys/kernel/ngroups_max", "sys/kernel/osrelease", "sys/kernel/pid_max", "sys/vm/overcommit_memory",
	} {
		rules = append(rules, pathRule{"/proc/" + name, landlockRead, true})
	}

	for _, path := range guard.SystemPaths() {
		rules = append(rules, pathRule{path, landlockRead, true})
	}
	return rules
}

// landlock confines the calling thread and its descendants to paths and, if the
// kernel supports it, keeps signals and abstract sockets among themselves. It
// returns the version in force, 0 if the kernel has none. It needs no_new_privs.
func landlock(attr unix.LandlockRulesetAttr, rules []pathRule) (int, error) {
	abi := landlockVersion()
	if abi == 0 {
		return 0, nil
	}

	size := unsafe.Offsetof(attr.Quiet_access_fs) // nothing is kept quiet
	switch {                                      // older kernels accept only a shorter struct
	case abi < 4:
		size = unsafe.Offsetof(attr.Handled_access_net)
	case abi < 6:
		size = unsafe.Offsetof(attr.Scoped)
	}

	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("make landlock rules: %w", errno)
	}
	defer unix.Close(int(fd))

	for _, r := range rules {
		err := allowBeneath(int(fd), r.path, r.access&attr.Handled_access_fs)
		if r.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("landlock %s: %w", r.path, err)
		}
	}

	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return 0, fmt.Errorf("enforce landlock rules: %w", errno)
	}
	return abi, nil
}

func allowBeneath(ruleset int, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
