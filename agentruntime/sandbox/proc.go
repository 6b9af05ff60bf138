package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hiddenProc are files that say something of the machine and not of the job,
// or speak to the kernel. Most are root's anyway.
func hiddenProc() []string {
	return []string{
		"cmdline", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats",
		"locks", "modules", "sched_debug", "sysrq-trigger", "timer_list", "vmallocinfo",
	}
}

// mountProc shows the own pid namespace only, read-only, and of its processes
// only the commands' own: process 1 stays hidden.
func mountProc() error {
	inside := filepath.Join(newRoot, "proc")
	if err := os.Mkdir(inside, 0o555); err != nil {
		return err
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("proc", inside, "proc", flags, "hidepid=2"); err != nil {
		return err
	}

	for _, name := range hiddenProc() {
		if err := hide(filepath.Join(inside, name)); err != nil {
			return fmt.Errorf("hide %s: %w", name, err)
		}
	}

	return nil
}

// hide covers a file with a device that nobody may open.
func hide(file string) error {
	err := unix.Mount("/dev/null", file, "", unix.MS_BIND, "")
	if err == unix.ENOENT { // not every kernel has every file
		return nil
	}
	if err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	return unix.MountSetattr(unix.AT_FDCWD, file, 0, &attr)
}
