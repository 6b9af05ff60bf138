package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot is where the root of the sandbox is assembled. It covers the host's /tmp
// in this mount namespace only.
const newRoot = "/tmp"

// artifactMount is the folder for artifacts inside the sandbox.
const artifactMount = "/artifacts"

// sharedMemory is where C libraries keep named semaphores.
const sharedMemory = "/dev/shm"

const maxLinkerCache = 2 << 20

// systemDirs are the folders of the host's toolchain. If one is a symlink on the
// host (/bin to usr/bin), the sandbox gets the same link.
func systemDirs() []string {
	return []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
}

// providedDirs are provided by the sandbox in every root.
func providedDirs() []string { return []string{"dev", "proc", "sys", "tmp", "artifacts", ".disk"} }

// reservedDirs are the top-level names that a mount path must not cover.
func reservedDirs() []string { return append(append(systemDirs(), "etc"), providedDirs()...) }

// buildRoot assembles the file system from an image or, without one, from the
// host's toolchain. It makes it the root and detaches the host's.
func buildRoot(p *plan, image *os.File) error {
	system := func() error { return bindSystem(p.Certificates) }
	if image != nil {
		system = func() error { return bindImage(p, image) }
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"make mounts private", func() error {
			return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}},
		{"mount root", func() error {
			return unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=8m,nr_inodes=1024")
		}},
		{"bind system", system},
		{"bind devices", bindDevices},
		{"mount disk", func() error { return mountDisk(p) }},
		{"mount /proc", mountProc},
		{"pivot", pivot},
		{"make root read-only", func() error {
			return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
		}},
	}

	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}

	return nil
}

func bindSystem(certificates bool) error {
	for _, name := range systemDirs() {
		err := show("/"+name, filepath.Join(newRoot, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := writeEtc(true); err != nil || !certificates {
		return err
	}
	return writeCertificates()
}

// writeCertificates installs the authorities that the host trusts where programs
// look for them; an image has its own.
func writeCertificates() error {
	list, err := rootCertificates()
	if err != nil { // like its host, the job then has the web without encryption
		return nil
	}
	dir := filepath.Join(newRoot, filepath.Dir(certificateFile))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(newRoot, certificateFile), list, 0o644)
}

// show makes a directory, a file or a copy of a symlink visible at inside,
// read-only.
func show(from, inside string) error {
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return bindDir(from, inside)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, inside)
	}

	if err := os.WriteFile(inside, nil, 0o644); err != nil {
		return err
	}
	return bindReadOnly(from, inside)
}

// bindDir makes a host directory, with all mounts below it, visible read-only.
func bindDir(host, inside string) error {
	if err := os.Mkdir(inside, 0o755); err != nil {
		return err
	}
	return bindReadOnly(host, inside)
}

func bindReadOnly(host, inside string) error {
	if err := unix.Mount(host, inside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", host, err)
	}
	// Unlike a remount, this also applies to the mounts below, or fails.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, inside, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", host, err)
	}
	return nil
}

// writeEtc creates the sandbox's own /etc. With the host's toolchain it contains
// only the files that the dynamic linker and Debian's alternatives need.
func writeEtc(host bool) error {
	etc := filepath.Join(newRoot, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}
	files := map[string]string{
		"passwd":        "root:x:0:0:root:/nonexistent:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
		"group":         "root:x:0:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
	}

	for name, text := range files {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}

	if !host {
		return nil
	}
	cache, err := os.Open("/etc/ld.so.cache")
	if err == nil {
		err = copyFile(cache, filepath.Join(etc, "ld.so.cache"), maxLinkerCache)
		cache.Close()
	}

	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy linker cache: %w", err)
	}
	if info, err := os.Stat("/etc/alternatives"); err == nil && info.IsDir() {
		return bindDir("/etc/alternatives", filepath.Join(etc, "alternatives"))
	}

	return nil
}

func bindDevices() error {
	dev := filepath.Join(newRoot, "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}

	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		inside := filepath.Join(dev, name)
		if err := os.WriteFile(inside, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, inside, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", name, err)
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC}
		if err := unix.MountSetattr(unix.AT_FDCWD, inside, 0, &attr); err != nil {
			return fmt.Errorf("make %s read-only: %w", name, err)
		}
	}

	links := map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
	for name, target := range links {
		if err := os.Symlink("/proc/self/"+target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}

	return nil
}

// mountDisk mounts one tmpfs of limited size and binds parts of it as the
// workspace, /tmp, /artifacts and /dev/shm, so that together they never exceed the
// job's disk.
func mountDisk(p *plan) error {
	disk := filepath.Join(newRoot, ".disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		return err
	}
	opts := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", p.DiskBytes, p.Inodes)
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return err
	}
	parts := []struct {
		name, at string
		mode     fs.FileMode
	}{
		{"workspace", p.MountPath, 0o755},
		{"tmp", "/tmp", 0o777 | fs.ModeSticky},
		{"artifacts", artifactMount, 0o755},
		{"shm", sharedMemory, 0o777 | fs.ModeSticky},
	}

	for _, part := range parts {
		from, inside := filepath.Join(disk, part.name), filepath.Join(newRoot, part.at)
		if err := os.Mkdir(from, 0o700); err != nil {
			return err
		}
		if err := os.Chown(from, commandID, commandID); err != nil {
			return err
		}
		if err := os.Chmod(from, part.mode); err != nil {
			return err
		}
		if err := os.MkdirAll(inside, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, inside, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", part.name, err)
		}
	}

	if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove(disk)
}

func pivot() error {
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	// Old and new root are in the same place: the old one is on top and is
	// unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount host root: %w", err)
	}
	return os.Chdir("/")
}

// checkMountPath accepts an absolute, clean path that does not begin with a
// directory of the sandbox.
func checkMountPath(path string) error {
	if !strings.HasPrefix(path, "/") || filepath.Clean(path) != path || path == "/" || len(path) > 256 {
		return errors.New("must be a clean absolute path below /")
	}
	elements := strings.Split(path[1:], "/")
	if len(elements) > 8 {
		return errors.New("is more than 8 directories deep")
	}

	for _, name := range reservedDirs() {
		if elements[0] == name {
			return fmt.Errorf("is inside /%s, which the sandbox provides", name)
		}
	}

	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("has control characters")
	}
	return nil
}

// hiddenProc are files that reveal something about the machine, or control the
// kernel. Most are readable by root only anyway.
func hiddenProc() []string {
	return []string{
		"cmdline", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats",
		"locks", "modules", "sched_debug", "sysrq-trigger", "timer_list", "vmallocinfo",
	}
}

// mountProc mounts /proc of this pid namespace, read-only. Commands see only their
// own processes; process 1 stays hidden.
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
