package guard

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confinement is what the kernel lets an agent's processes reach, by Landlock, under any
// user. They may also use the sockets and files that they receive open. They have no
// capabilities and cannot gain any, and they cannot make set-user-id files. From
// Landlock 6 on, they cannot reach signals and abstract sockets of other processes.
type Confinement struct {
	Read  []string `json:"read"`  // files, and folders with all below, to read and execute
	Write []string `json:"write"` // to change as well
	// Others are folders that other agents may change. A symbolic link in them, or in
	// Write, opens nothing.
	Others []string `json:"others"`
	// Network allows the network. Without it a supervisor that is root gives
	// the agent a network of its own with nothing in it. Another one denies all
	// sockets but those of the file system, and TCP alone on an architecture
	// that has no filter of system calls here.
	Network bool `json:"network"`
}

// SystemPaths is what every program needs to run at all, and what languages and
// tools read of their own settings: some end where they find those and may not
// read them. /etc as a whole holds secrets that root may read, so it is not among
// them.
func SystemPaths() []string {
	paths := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/dev/random", "/dev/urandom",
		"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/fonts", "/etc/gitattributes", "/etc/gitconfig", "/etc/group", "/etc/hosts",
		"/etc/host.conf", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/perl", "/etc/pki",
		"/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl", "/etc/timezone",
	}

	// Their versions are part of these names. A folder that cannot be read adds none.
	entries, _ := os.ReadDir("/etc")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "java") || strings.HasPrefix(e.Name(), "python") {
			paths = append(paths, "/etc/"+e.Name())
		}
	}
	return paths
}

const (
	fsRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// fsRights are all rights over files that a version of Landlock can deny.
func fsRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1 // version 1: everything up to it
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// apply confines the calling thread and everything that it starts from now on. It
// returns a description of what is in force: without Landlock that is nothing.
func (c *Confinement) apply() (string, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return "not confined: this kernel has no Landlock", nil
	}
	words := []string{fmt.Sprintf("landlock %d", abi)}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fsRights(int(abi))}
	settled := c.Network || unix.Unshare(unix.CLONE_NEWNET) == nil
	if !settled && abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		words = append(words, "signals scoped")
	}

	if err := c.restrict(attr, int(abi)); err != nil {
		return "", err
	}
	filtered, err := filterCalls(!settled)
	if filtered {
		words = append(words, "no set-user-id files")
	}

	switch {
	case c.Network:
	case settled || filtered:
		words = append(words, "no network")
	case abi >= 4:
		words = append(words, "no TCP")
	default:
		words = append(words, "network open")
	}

	return strings.Join(words, ", "), err
}

func (c *Confinement) restrict(attr unix.LandlockRulesetAttr, abi int) error {
	size := unsafe.Offsetof(attr.Quiet_access_fs) // nothing is kept quiet
	switch {
	case abi < 4:
		size = unsafe.Offsetof(attr.Handled_access_net)
	case abi < 6:
		size = unsafe.Offsetof(attr.Scoped)
	}

	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make landlock rules: %w", errno)
	}
	defer unix.Close(int(fd))

	paths := newRealPaths(slices.Concat(c.Write, c.Others))
	for _, p := range c.Read {
		if err := paths.add(int(fd), p, fsRead); err != nil {
			return err
		}
	}

	for _, p := range c.Write {
		if err := paths.add(int(fd), p, attr.Handled_access_fs); err != nil {
			return err
		}
	}

	// With capabilities, root could read the memory of other processes in spite of
	// Landlock. Without them it is an ordinary user.
	for capability := uintptr(0); ; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			break // beyond the last one, or we have none to give
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}

	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("enforce landlock rules: %w", errno)
	}

	return nil
}

// realPaths resolves the paths of a confinement. It refuses a symbolic link in a folder
// that an agent may change, because the agent could have made the link to get access to
// its target.
type realPaths struct {
	system    []string
	writeable []string // to agents; without symbolic links
}

func newRealPaths(write []string) *realPaths {
	anywhere := &realPaths{}
	r := &realPaths{system: SystemPaths()}
	for _, p := range write {
		if root, err := anywhere.follow(p); err == nil { // add says what is wrong with others
			r.writeable = append(r.writeable, root)
		}
	}
	return r
}

// maxLinks is the number of symbolic links that the kernel follows.
const maxLinks = 40

// follow returns a path without symbolic links. It refuses a link in a writeable folder.
func (r *realPaths) follow(p string) (string, error) {
	at, rest := "/", strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := path.Join(at, name) // where name is "", "." or ".." too
		if next == at || name == ".." {
			at = next
			continue
		}

		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, unix.EINVAL): // no link
			at = next
			continue
		case err != nil:
			return "", err
		case r.mayChange(at):
			return "", &agentLinkError{next}
		}

		if links++; links > maxLinks {
			return "", unix.ELOOP
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}

	return at, nil
}

func (r *realPaths) mayChange(dir string) bool {
	return slices.ContainsFunc(r.writeable, func(root string) bool {
		return dir == root || root == "/" || strings.HasPrefix(dir, root+"/")
	})
}

// agentLinkError: a path leads through a symbolic link that an agent could have made.
type agentLinkError struct{ link string }

func (e *agentLinkError) Error() string {
	return e.link + " is a symbolic link in a folder that an agent may change, and could lead anywhere: name what it leads to, or put a folder in its place"
}

// add allows access below a path. A path that does not exist needs no rule.
func (r *realPaths) add(ruleset int, p string, access uint64) error {
	to, err := r.follow(p)
	if err == nil {
		err = addPath(ruleset, to, access)
	}

	switch {
	case errors.As(err, new(*agentLinkError)) && slices.Contains(r.system, p):
		return nil // the agent may change the system's own files: it needs no more
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("confine to %s: %w", p, err)
	}
	return nil
}

// addPath allows access below a resolved path, and fails if it has a symbolic link by
// now.
func addPath(ruleset int, p string, access uint64) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fsFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
