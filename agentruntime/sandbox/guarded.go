package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
)

// guardedProgram is a program below a guard, as seen by its starter.
type guardedProgram struct {
	guard int // pid of the guard

	cmd     *exec.Cmd
	control *os.File
	once    sync.Once
}

// startUnderGuard starts a guard, which starts the program of the order. The
// program gets files as its descriptors from 3 on, and writes to stderr. The caller
// must call kill in the end.
func startUnderGuard(order guard.Order, files []*os.File, stderr io.Writer, timeout time.Duration) (*guardedProgram, error) {
	agentEnd, guardEnd, err := controlPair()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	defer guardEnd.Close()

	order.Files = len(files)
	g := &guardedProgram{control: agentEnd}
	g.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"lightwork-guard"}, Env: []string{guard.Env + "=1"}, Dir: "/", Stderr: stderr,
		ExtraFiles: append([]*os.File{guardEnd}, files...), SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := g.cmd.Start(); err != nil {
		agentEnd.Close()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	g.guard = g.cmd.Process.Pid
	if err := g.begin(order, timeout); err != nil {
		g.kill()
		return nil, err
	}
	return g, nil
}

// begin sends the order and waits for the program's pid.
func (g *guardedProgram) begin(order guard.Order, timeout time.Duration) error {
	doc, err := json.Marshal(order)
	if err != nil {
		return err
	}
	message, err := frame.Append(nil, doc, guard.MaxMessage)
	if err != nil {
		return err
	}
	if err := g.control.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := g.control.Write(message); err != nil {
		return fmt.Errorf("order the guard: %w", err)
	}

	doc, err = frame.NewReader(g.control, guard.MaxMessage).Next()
	if err != nil {
		return fmt.Errorf("no answer from the guard: %w", err)
	}
	var report guard.Report
	if err := json.Unmarshal(doc, &report); err != nil || report.Error == "" && report.PID <= 1 {
		return errors.New("the guard's answer is malformed")
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}

	return nil
}

// stop tells the guard to kill the program and all its descendants, without
// waiting.
func (g *guardedProgram) stop() {
	g.once.Do(func() {
		raw, err := g.control.SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
		}
	})
}

// kill calls stop and waits until all processes have ended.
func (g *guardedProgram) kill() {
	g.stop()
	_ = g.cmd.Wait()
	g.control.Close()
}

// controlPair returns two connected close-on-exec stream sockets; the first
// supports deadlines.
func controlPair() (agentEnd, guardEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}
