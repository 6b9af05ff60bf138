package devnet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// stopGrace is how long a process may run after SIGTERM.
	stopGrace = 15 * time.Second

	// logTail is how much of a dead process's log is in its error, in bytes.
	logTail = 2048
)

// process is one program of the network in its own process group. It dies with the
// program that started it, even after SIGKILL.
type process struct {
	name    string
	logPath string
	pid     int
	done    chan struct{} // closed when the process has ended

	stopOnce sync.Once
}

// startProcess starts path with args and appends its output to logPath.
func startProcess(path, logPath string, args ...string) (*process, error) {
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = filepath.Dir(logPath)

	// Use a separate home, so that the program does not read the user's
	// configuration.
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	p := &process{name: filepath.Base(path), logPath: logPath, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when the starting thread ends, not the
		// process, so this thread lives as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer out.Close()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended is in the log
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// stop ends the process group, gracefully at first, and waits for it.
func (p *process) stop() {
	p.stopOnce.Do(func() {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(stopGrace):
		}
	})
	p.kill()
}

// kill ends the process group at once and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal signals the group only while its leader is alive, because the id may be
// reused afterwards.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.pid, sig)
	}
}

// exited returns nil while the process runs, then an error with the end of its log.
func (p *process) exited() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	log, err := os.ReadFile(p.logPath)
	if err != nil {
		return fmt.Errorf("%s ended: %w", p.name, ErrStopped)
	}
	log = bytes.TrimSpace(log[max(0, len(log)-logTail):])
	return fmt.Errorf("%s ended: %w; its log ends with:\n%s", p.name, ErrStopped, log)
}
