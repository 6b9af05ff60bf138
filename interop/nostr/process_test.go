package nostr_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take before a test gives up; no test
// depends on how fast something is.
const patience = 40 * time.Second

// process is a running program. Its output may be waited for.
type process struct {
	cmd    *exec.Cmd
	out    output // standard output
	errs   output // standard error
	exited chan struct{}
	err    error // of Wait; valid once exited is closed
}

// start runs cmd in dir until the test ends. What it said is shown if the test fails.
func start(t *testing.T, dir string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	p.out.changed, p.errs.changed = make(chan struct{}), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &p.out, &p.errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s\nout:\n%s\nerr:\n%s", strings.Join(cmd.Args, " "), p.out.text(), p.errs.text())
		}
	})
	return p
}

// stop interrupts the program and waits for its end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Errorf("%s ignores an interrupt", p.cmd.Args)
		_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended just now
		<-p.exited
	}
}

// ended waits for the program's own end and gives its exit code.
func (p *process) ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.cmd.Args)
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits until the program has said text on o, which is p.out or p.errs.
func (p *process) await(t *testing.T, o *output, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		said, changed := o.state()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-changed:
		case <-p.exited:
			if !strings.Contains(o.text(), text) {
				t.Fatalf("%s ended without %q", p.cmd.Args, text)
			}
		case <-ctx.Done():
			t.Fatalf("%s does not say %q", p.cmd.Args, text)
		}
	}
}

// output collects what a program writes and tells when there is more.
type output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{} // closed at the next write
}

// Write appends to what was said.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.buf.Write(b)
}

func (o *output) state() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.changed
}

func (o *output) text() string {
	said, _ := o.state()
	return said
}
