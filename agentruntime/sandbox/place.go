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

// placePrefix begins the name of every place, so that Sweep knows them.
const placePrefix = "lightwork-job-"

// placeLock is a file of a place that its agent holds a lock on while it lives.
const placeLock = "lock"

// place is where a job at LevelLandlock has its files: folders on the machine's
// own disk, in place of the file system in memory of the other levels.
type place struct {
	dir  string
	lock *os.File
}

// newPlace makes the folders. They belong to the commands' user and nobody else
// can enter them; the commands' Landlock allows the three folders alone.
func newPlace(workDir string, uid int) (_ *place, err error) {
	dir := filepath.Join(workDir, placePrefix+rand.Text()) // not to be guessed by another job
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

// settle has the plan speak of the place instead of the paths that a sandbox
// with mounts of its own has.
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

	// The system's git configuration is not readable, and git ends where it finds one.
	env := []string{"TMPDIR=" + p.tmp(), "GIT_CONFIG_NOSYSTEM=1"}
	for _, kv := range to.Env {
		switch name, value, _ := strings.Cut(kv, "="); {
		case name == "HOME" && value == to.Tmp:
			kv = "HOME=" + p.tmp()
		case name == "LIGHTWORK_ARTIFACTS":
			kv = name + "=" + p.artifacts()
		}
		env = append(env, kv) // of two with one name programs take the last
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

	// A round opens the closed folders that it meets, and the next looks into them.
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

// maxDepth is how many closed folders inside each other removeTree opens.
const maxDepth = 64

// sweepPlaces removes the places of agents that are gone.
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
			continue // somebody else's
		}
		lock, err := os.OpenFile(filepath.Join(dir, placeLock), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // being made, or being removed
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

// Looks at the files take a twentieth of a processor at most.
const (
	diskPause   = 50 * time.Millisecond
	diskLongest = time.Second
	diskShare   = 20
)

// watchDisk adds up the job's files until ctx ends or they are beyond the limit.
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

// lookAtDisk counts what has a name in the place, and what has lost its name and
// is held open.
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
		return nil // it goes away with the job
	}
	defer top.Close()

	info, err := top.Stat(".")
	if err != nil {
		return nil
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	err = fs.WalkDir(top.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d == nil {
			return nil // gone meanwhile, or closed by the job to itself: its size was counted before
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

// Sweep removes the cgroups, kills the processes still in them, and removes the
// folders of sandboxes whose agent is gone: what a crash may leave behind. Mounts
// need no sweep: they end with the namespace. It is safe while other agents run.
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
