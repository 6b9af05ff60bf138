package abuse_test

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

// patience is how long anything may take before a test gives up; no test
// depends on how fast something is.
const patience = 90 * time.Second

// process is a running lightwork; what it says may be waited for.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}

	mu      sync.Mutex
	out     bytes.Buffer // both streams
	changed chan struct{}
}

// Write appends to what was said.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.out.Write(b)
}

func (p *process) said() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.changed
}

func (w *world) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: w.lightwork(args...), exited: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p, p, time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is looked at by ended
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if said, _ := p.said(); t.Failed() {
			t.Logf("%s\n%s", strings.Join(p.cmd.Args, " "), said)
		}
	})
	return p
}

// stop interrupts the program and waits for its end; twice is fine.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Errorf("%s ignores an interrupt", p.cmd.Args)
		_ = p.cmd.Process.Kill() // it may have ended just now
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

// says waits until the program has said text.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	limit := time.After(patience)
	for {
		said, changed := p.said()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-changed:
		case <-p.exited:
			if said, _ := p.said(); !strings.Contains(said, text) {
				t.Fatalf("%s ended without %q", p.cmd.Args, text)
			}
		case <-limit:
			t.Fatalf("%s does not say %q", p.cmd.Args, text)
		}
	}
}
