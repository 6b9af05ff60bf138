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
	// stopGrace is between closing the server's stdin and SIGTERM, and again
	// until SIGKILL: together less than what the node gives the agent.
	stopGrace = 500 * time.Millisecond
	// tailGrace is how long the pipes of an ended server are still read: only
	// a process that left its group can keep them open.
	tailGrace = time.Second

	maxStderrLine   = 4 << 10
	stderrPerWindow = 256 << 10 // bytes that are passed on in one window
	stderrWindow    = 10 * time.Second
)

// hideEnvironment keeps other processes of the same user, the server above
// all, from reading the session token in this process's first environment.
func hideEnvironment(log *slog.Logger) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("hide the environment", "err", err)
	}
}

// process is the running server.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File      // we write
	stdout *os.File      // we read
	exited chan struct{} // closed when the server is reaped and its group killed
	status string        // how it ended; set before exited is closed
	stderr chan struct{} // closed when its stderr has been read
}

// startServer starts the server in a process group of its own.
func startServer(cfg *Config) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir, cmd.Env = cfg.Dir, cfg.environ()

	// The server dies with the agent, however that ends.
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
	// Pdeathsig is about the thread that starts the child: this one must live
	// as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.exited)

	pid := p.cmd.Process.Pid

	// While the server is a zombie its pid cannot name another group.
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	_ = p.cmd.Wait()
	p.status = p.cmd.ProcessState.String()
	for _, f := range []*os.File{p.stdout, stderr} {
		_ = f.SetReadDeadline(time.Now().Add(tailGrace))
	}
}

// stop ends the server as MCP asks for: its stdin is closed, then it is asked
// to end, then it is killed with its group. It returns when it is reaped.
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

// passStderr logs the lines of r. Long ones are cut, and more than so many
// bytes in a window are dropped and counted.
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
