package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/internal/watchdog"
)

// placePrefix starts the name of every place, so that Sweep recognizes them.
const placePrefix = "lightwork-job-"

// placeLock is a file of the place that the agent keeps locked as long as it lives.
const placeLock = "lock"

// place holds the files of a job at LevelLandlock: folders on the machine's disk
// instead of the in-memory file system of the other levels.
type place struct {
	dir  string
	lock *os.File
}

// newPlace makes the folders. They belong to the commands' user, and nobody else
// can enter them. Landlock allows the commands these three folders only.
func newPlace(workDir string, uid int) (_ *place, err error) {
	dir := filepath.Join(workDir, placePrefix+rand.Text()) // other jobs must not guess it
	err = os.Mkdir(dir, 0o700)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the job: %w", err)
	}
	p := &place{dir: dir}
	defer func() {
		if err != nil {
			_ = p.remove()
		}
	}()

	if p.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if p.lock, err = os.OpenFile(filepath.Join(dir, placeLock), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}

	for _, part := range p.parts() {
		if err := os.Mkdir(part, 0o700); err != nil {
			return nil, err
		}
		if err := os.Chown(part, uid, -1); err != nil {
			return nil, err
		}
	}

	return p, os.Chown(dir, uid, -1)
}

func (p *place) workspace() string { return filepath.Join(p.dir, "workspace") }
func (p *place) tmp() string       { return filepath.Join(p.dir, "tmp") }
func (p *place) artifacts() string { return filepath.Join(p.dir, "artifacts") }
func (p *place) parts() []string   { return []string{p.workspace(), p.tmp(), p.artifacts()} }

// settle replaces the paths in a plan, which are for a sandbox with its own mounts,
// by those of the place.
func (p *place) settle(to *plan) {
	moved := map[string]string{to.MountPath: p.workspace(), to.Tmp: p.tmp(), to.Artifacts: p.artifacts()}
	commands := slices.Clone(to.Commands)
	for i, c := range commands {
		for from, at := range moved {
			if rest, ok := strings.CutPrefix(c.Dir, from); ok && (rest == "" || rest[0] == '/') {
				commands[i].Dir = at + rest
				break
			}
		}
	}

	// Git fails if it finds a system configuration that it cannot read.
	env := []string{"TMPDIR=" + p.tmp(), "GIT_CONFIG_NOSYSTEM=1"}
	for _, kv := range to.Env {
		switch name, value, _ := strings.Cut(kv, "="); {
		case name == "HOME" && value == to.Tmp:
			kv = "HOME=" + p.tmp()
		case name == "LIGHTWORK_ARTIFACTS":
			kv = name + "=" + p.artifacts()
		}
		env = append(env, kv) // of two variables with one name, programs use the last
	}

	to.Commands, to.Env = commands, env
	to.MountPath, to.Tmp, to.Artifacts = p.workspace(), p.tmp(), p.artifacts()
}

// remove takes the place away, also folders that the job closed to itself.
func (p *place) remove() error {
	if p.lock != nil {
		defer p.lock.Close()
	}
	return removeTree(p.dir)
}

func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	// Each round opens the inaccessible folders that it finds, and the next round
	// looks inside.
	for range maxDepth {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		opened := false
		_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil && d != nil && d.IsDir() {
				opened = root.Chmod(name, 0o700) == nil || opened
				return fs.SkipDir
			}
			return nil
		})
		if !opened {
			break
		}
	}

	return err
}

// maxDepth bounds the nesting of inaccessible folders that removeTree opens.
const maxDepth = 64

// sweepPlaces removes the places of agents that have ended.
func sweepPlaces(workDir string) (removed []string, err error) {
	found, err := filepath.Glob(filepath.Join(workDir, placePrefix+"*"))
	if err != nil {
		return nil, err
	}

	var errs []error
	for _, dir := range found {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR ||
			int(st.Uid) != os.Geteuid() && (os.Geteuid() != 0 || st.Uid != hostCommandID) {
			continue // owned by another user
		}
		lock, err := os.OpenFile(filepath.Join(dir, placeLock), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // just being made or removed
		}
		if err == nil && unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			errs = append(errs, removeTree(dir))
			removed = append(removed, dir)
		}

		lock.Close()
	}

	return removed, errors.Join(errs...)
}

// diskError says that the job's files are too large or too many.
type diskError struct{ what string }

func (e *diskError) Error() string { return e.what }

// The checks use at most a twentieth of a processor.
const (
	diskPause   = 50 * time.Millisecond
	diskLongest = time.Second
	diskShare   = 20
)

// watchDisk adds up the job's files until ctx ends or they exceed the limit.
func (p *place) watchDisk(ctx context.Context, bytes, inodes int64, root int) error {
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		if err := p.lookAtDisk(bytes, inodes, root); err != nil {
			return err
		}
		timer.Reset(min(max(diskPause, diskShare*time.Since(began)), diskLongest))
	}
}

// lookAtDisk counts the files in the place, and deleted files that are still open.
func (p *place) lookAtDisk(bytes, inodes int64, root int) error {
	seen := map[uint64]bool{}
	var used, count int64
	add := func(st *syscall.Stat_t) error {
		if seen[st.Ino] {
			return nil
		}
		seen[st.Ino] = true
		used += st.Blocks * 512
		if count++; count > inodes {
			return &diskError{fmt.Sprintf("disk_limit: there were more than %d files", inodes)}
		}
		if used > bytes {
			return &diskError{fmt.Sprintf("disk_limit: the files took more than %d MiB", bytes>>20)}
		}

		return nil
	}

	top, err := os.OpenRoot(p.dir)
	if err != nil {
		return nil // the job has ended
	}
	defer top.Close()

	info, err := top.Stat(".")
	if err != nil {
		return nil
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	err = fs.WalkDir(top.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d == nil {
			return nil // gone, or made inaccessible by the job: its size was counted before
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return add(info.Sys().(*syscall.Stat_t))
	})
	if err != nil {
		return err
	}

	for _, process := range watchdog.Below(root) {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", process.PID))
		for _, name := range open {
			var st syscall.Stat_t
			if syscall.Stat(name, &st) == nil && st.Dev == device && st.Nlink == 0 && st.Mode&syscall.S_IFMT == syscall.S_IFREG {
				if err := add(&st); err != nil {
					return err
				}
			}
		}
	}

	return nil
}

// Sweep removes the remains of sandboxes whose agent crashed: it kills the
// processes in their cgroups and removes the cgroups and folders. Mounts end with
// their namespace. Sweep is safe while other agents run.
func Sweep(opts Options) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	removed, err := cgroup.Sweep(opts.CgroupRoot)
	for _, dir := range removed {
		opts.Logger.Info("removed what a crashed sandbox left", "cgroup", dir)
	}
	places, placeErr := sweepPlaces(opts.WorkDir)
	for _, dir := range places {
		opts.Logger.Info("removed what a crashed sandbox left", "folder", dir)
	}
	return errors.Join(err, placeErr)
}
