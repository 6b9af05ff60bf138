package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	// stopGrace is the time between closing the server's stdin and SIGTERM, and
	// between SIGTERM and SIGKILL. The sum is less than what the node gives the
	// agent.
	stopGrace = 500 * time.Millisecond
	// tailGrace is how long the pipes of an ended server are still read: only a
	// process that left its group can keep them open.
	tailGrace = time.Second

	maxStderrLine   = 4 << 10
	stderrPerWindow = 256 << 10 // bytes that are logged in one window
	stderrWindow    = 10 * time.Second
)

// hideEnvironment prevents other processes of the same user, in particular the
// server, from reading the session token in this process's initial environment.
func hideEnvironment(log *slog.Logger) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("hide the environment", "err", err)
	}
}

// process is the running server.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File      // our end, for writing
	stdout *os.File      // our end, for reading
	exited chan struct{} // closed when the server has been reaped and its group killed
	status string        // how it ended; set before exited is closed
	stderr chan struct{} // closed when all of stderr has been read
}

// startServer starts the server in a process group of its own.
func startServer(cfg *Config) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir, cmd.Env = cfg.Dir, cfg.environ()

	// The kernel kills the server when the agent dies for any reason.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var files []*os.File // read and write end of stdin, stdout, stderr
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		files = append(files, r, w)
	}

	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	p := &process{
		cmd: cmd, stdin: files[1], stdout: files[2],
		exited: make(chan struct{}), stderr: make(chan struct{}),
	}
	started := make(chan error)
	go p.run(started, files[4])
	err := <-started
	closeAll([]*os.File{files[0], files[3], files[5]})
	if err != nil {
		closeAll([]*os.File{files[1], files[2], files[4]})
		return nil, fmt.Errorf("start the server: %w", err)
	}
	go func() {
		defer close(p.stderr)
		defer files[4].Close()
		passStderr(files[4], cfg.Logger)
	}()
	return p, nil
}

// run owns the server from start to end.
func (p *process) run(started chan<- error, stderr *os.File) {
	// Pdeathsig is sent when the thread that started the child ends, so this thread
	// must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.exited)

	pid := p.cmd.Process.Pid

	// While the server is a zombie, its pid cannot be reused for another group.
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = p.cmd.Wait()
	p.status = p.cmd.ProcessState.String()
	for _, f := range []*os.File{p.stdout, stderr} {
		_ = f.SetReadDeadline(time.Now().Add(tailGrace))
	}
}

// stop ends the server as MCP prescribes: it closes stdin, then sends SIGTERM, then
// kills the process group. It returns when the server has been reaped.
func (p *process) stop() {
	p.stdin.Close()

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		timer := time.NewTimer(stopGrace)
		select {
		case <-p.exited:
		case <-timer.C:
			_ = unix.Kill(-p.cmd.Process.Pid, sig)
		}
		timer.Stop()
	}

	<-p.exited
	p.stdout.Close()
	<-p.stderr
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// passStderr logs the lines of r. It cuts long lines, and drops and counts lines
// beyond the byte limit of a window.
func passStderr(r io.Reader, log *slog.Logger) {
	in := bufio.NewReaderSize(r, maxStderrLine)
	start, used, dropped := time.Now(), 0, 0
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			break
		}
		if time.Since(start) > stderrWindow {
			start, used = time.Now(), 0
		}
		used += len(line) + 1
		if used > stderrPerWindow {
			dropped++
		} else if len(line) > 0 {
			log.Info("server stderr", "line", wire.SafeText(string(line)))
		}

		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}

	if dropped > 0 {
		log.Warn("server stderr dropped", "lines", dropped)
	}
}
