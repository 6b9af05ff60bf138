package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// Start starts cmd in the group. In a unified hierarchy it is born there. In the
// older form, and where that is refused, it is moved once it runs, for which the
// kernel has all processes that fork or end wait, and waits for them: some ten
// milliseconds where much forks. So a program may start others only when Start
// has returned. A group that cannot be entered is an *UnavailableError, and
// nothing runs then.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g.version != 2 {
		return g.startAndMove(cmd)
	}
	// To be born in a group takes clone3, which filters of containers refuse (it
	// is not to be seen what it asks for) and kernels before 5.7 cannot do.
	again := *cmd
	if g.startInside(cmd) == nil {
		return nil
	}
	*cmd = again // else it counts as started
	return g.startAndMove(cmd)
}

func (g *Group) startInside(cmd *exec.Cmd) error {
	dir, err := os.Open(g.dirs["memory"]) // all of them are one
	if err != nil {
		return err
	}
	defer dir.Close()

	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	cmd.SysProcAttr = &attr
	return cmd.Start()
}

func (g *Group) startAndMove(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := g.move(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return &UnavailableError{Missing: []string{err.Error()}}
	}
	return nil
}

// move moves a process, with all its threads, into the group.
func (g *Group) move(pid int) error {
	for c, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("enter %s cgroup: %w", c, err)
		}
	}
	return nil
}
