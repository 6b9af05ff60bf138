package contract

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	keepOutput = 4 << 10 // bytes of the agent's output that are kept
	// pipeGrace is how long a child may hold the output open after the agent.
	pipeGrace = time.Second
	// exitGrace is how long an agent that has closed the connection may take
	// to end, before it is killed: long enough to see a crash.
	exitGrace = 500 * time.Millisecond
)

// process is a launched agent, the leader of its own process group.
type process struct {
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed when the agent is reaped and its group killed
	asked  bool          // a signal was sent: dying of one is no crash
}

// launch starts the agent. Socket and token go by environment (OS-5.2.2).
func launch(agent *Agent, socket, token string) (*process, error) {
	p := &process{output: newOutput(token), exited: make(chan struct{})}
	p.cmd = exec.Command(agent.Command[0], agent.Command[1:]...)
	p.cmd.Dir = agent.Dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, agent.Env...)
	p.cmd.Env = append(p.cmd.Env,
		"OPENSENTIENCE_SOCKET_PATH="+socket,
		"OPENSENTIENCE_SESSION_TOKEN="+token,
		"OPENSENTIENCE_AGENT_ID="+agent.ID,
		"OPENSENTIENCE_INSTALL_PATH="+agent.Dir,
		"OPENSENTIENCE_RUN_ID=contract",
	)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = pipeGrace
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in ProcessState
		p.signal(syscall.SIGKILL)
	}()
	return p, nil
}

// signal sends to the whole group; nothing may be left of it.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s)
}

// kill ends the group after grace and waits until it is reaped.
func (p *process) kill(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.asked = true
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// exitStatus describes how the process ended; it is "" while the process runs.
func (p *process) exitStatus() string {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.String()
	default:
		return ""
	}
}

// hasCrashed reports whether the process died of a signal that nobody sent it.
func (p *process) hasCrashed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	ours := status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM
	return !p.asked || !ours
}

// output keeps the end of what the agent prints, and sees the token go by.
type output struct {
	mu     sync.Mutex
	token  []byte
	kept   []byte
	leaked bool
}

func newOutput(token string) *output { return &output{token: []byte(token)} }

// Write implements io.Writer for both streams of the agent.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The token may be cut in two by the pipe, so the end that is kept counts.
	o.kept = append(o.kept, p...)
	o.leaked = o.leaked || bytes.Contains(o.kept, o.token)
	if over := len(o.kept) - keepOutput; over > 0 {
		o.kept = append([]byte(nil), o.kept[over:]...)
	}
	return len(p), nil
}

// read returns the end of the output and whether the token was in any of it.
func (o *output) read() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(bytes.ToValidUTF8(o.kept, []byte("?"))), o.leaked
}
