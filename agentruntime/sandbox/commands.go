package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/internal/watchdog"
)

// Exit codes a shell would report.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalBase    = 128
)

// runCommands runs inside the sandbox. It stops at the first failure that the plan
// does not allow, and returns the exit codes.
func runCommands(p *plan, w *frameWriter) (codes []int, err error) {
	for _, c := range p.Commands {
		if err := w.write(frameStart, nil); err != nil {
			return codes, err
		}
		start := time.Now()
		code, err := runCommand(p, c, w)
		if err != nil {
			return codes, err
		}
		codes = append(codes, code)
		report := exitReport{ExitCode: code, DurationMs: time.Since(start).Milliseconds()}
		if err := w.writeJSON(frameExit, report); err != nil {
			return codes, err
		}
		if code != 0 && !c.ContinueOnFail {
			return codes, nil
		}
	}

	return codes, nil
}

// runCommand runs one shell and everything that it starts. When the shell ends, all
// processes that it left are killed, so that they cannot touch the next command or
// the artifacts.
func runCommand(p *plan, c planCommand, w *frameWriter) (code int, err error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()

	outR, outW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer outR.Close()

	errR, errW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return 0, err
	}
	defer errR.Close()

	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: p.Env,
		Files: []uintptr{null.Fd(), outW.Fd(), errW.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if p.Split {
		attr.Sys.Credential = &syscall.Credential{Uid: commandID, Gid: commandID}
	}
	pid, startErr := syscall.ForkExec("/bin/sh", []string{"sh", "-c", c.Cmd}, attr)
	outW.Close()
	errW.Close()
	if startErr != nil {
		return startFailure(c, startErr, w)
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { pump(w, frameStdout, outR) })
	pumps.Go(func() { pump(w, frameStderr, errR) })
	code, err = await(pid)
	if killErr := killRest(p); err == nil {
		err = killErr
	}
	pumps.Wait()
	return code, err
}

// startFailure reports, as a shell would, a directory that cannot be entered or an
// image without a shell.
func startFailure(c planCommand, startErr error, w *frameWriter) (int, error) {
	if err := w.write(frameStderr, fmt.Appendf(nil, "sandbox: start /bin/sh in %s: %v\n", c.Dir, startErr)); err != nil {
		return 0, err
	}
	if errors.Is(startErr, syscall.ENOENT) {
		return exitNotFound, nil
	}
	return exitNotExecutable, nil
}

// pump forwards a stream until its last writer has closed it. If the agent no
// longer reads, the job is pointless and ends.
func pump(w *frameWriter, kind byte, r io.Reader) {
	buf := make([]byte, chunkSize)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := w.write(kind, buf[:n]); err != nil {
				os.Exit(3)
			}
		}
		if err != nil {
			return
		}
	}
}

// await reaps processes until pid ends: init, as process 1, inherits every orphan.
func await(pid int) (int, error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait for command: %w", err)
		case got == pid && status.Signaled():
			return exitSignalBase + int(status.Signal()), nil
		case got == pid:
			return status.ExitStatus(), nil
		}
	}
}

// killRest kills every process of the namespace but init. The kernel does that
// under a lock that fork also takes, so no process escapes.
func killRest(p *plan) error {
	if p.Level == LevelLandlock {
		return killBelow()
	}
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill leftover processes: %w", err)
	}

	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err == syscall.ECHILD {
			return nil
		}
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("reap leftover processes: %w", err)
		}
	}
}

// killBelow kills and reaps descendants where no single call kills all processes of
// a job. It repeats until this process, which inherits all orphans, has no
// children.
func killBelow() error {
	for {
		// The thread that starts commands may not inspect processes; other threads
		// may.
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			for _, process := range watchdog.Below(os.Getpid()) {
				if process.PID != os.Getpid() {
					_ = unix.Kill(process.PID, unix.SIGKILL)
				}
			}
		}()
		<-killed

		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return nil
			}
			if err != nil && err != syscall.EINTR {
				return fmt.Errorf("reap leftover processes: %w", err)
			}
			if pid == 0 {
				break
			}
		}

		time.Sleep(time.Millisecond)
	}
}
