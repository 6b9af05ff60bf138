// Package outside is what the tests against foreign programs share: it builds
// the real lightwork, installs what npm's lockfiles pin, and runs both as
// processes on loopback.
package outside

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long anything may take before a test gives up; no test
// depends on how fast something is.
const Patience = 90 * time.Second

// Process is a running program. Its output may be waited for.
type Process struct {
	Out  Output // standard output
	Errs Output // standard error

	cmd    *exec.Cmd
	exited chan struct{}
}

// Start runs cmd until the test ends. What it said is shown if the test fails.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.Out.changed, p.Errs.changed = make(chan struct{}), make(chan struct{})
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &p.Out, &p.Errs, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the exit code is looked at by Ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("%s\nout:\n%s\nerr:\n%s", strings.Join(cmd.Args, " "), p.Out.Text(), p.Errs.Text())
		}
	})
	return p
}

// Stop interrupts the program and waits for its end; twice is fine.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.exited:
	case <-time.After(Patience):
		t.Errorf("%s ignores an interrupt", p.cmd.Args)
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.exited
	}
}

// Ended waits for the program's own end and gives its exit code.
func (p *Process) Ended(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(Patience):
		t.Fatalf("%s does not end", p.cmd.Args)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Await waits until the program has said text on o, which is p.Out or p.Errs.
func (p *Process) Await(t *testing.T, o *Output, text string) {
	t.Helper()

	limit := time.After(Patience)
	for {
		said, changed := o.state()
		if strings.Contains(said, text) {
			return
		}

		select {
		case <-changed:
		case <-p.exited:
			if !strings.Contains(o.Text(), text) {
				t.Fatalf("%s ended without %q", p.cmd.Args, text)
			}
		case <-limit:
			t.Fatalf("%s does not say %q", p.cmd.Args, text)
		}
	}
}

// Output collects what a program writes and tells when there is more.
type Output struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{} // closed at the next write
}

// Write appends to what was said.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.buf.Write(b)
}

func (o *Output) state() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String(), o.changed
}

// Text is what was said so far.
func (o *Output) Text() string {
	said, _ := o.state()
	return said
}
