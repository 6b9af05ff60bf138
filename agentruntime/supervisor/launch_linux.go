package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/internal/watchdog"
)

var errNoGuard = errors.New("supervisor: the guard did not answer")

// process is a launched agent and its guard.
type process struct {
	pid      int    // of the agent
	confined string // what confinement is in force
	// unlimited says why the group's limits are not in force; "" if they are.
	unlimited string
	group     *cgroup.Group // nil if there are none
	limits    cgroup.Limits
	control   *os.File
	exited    chan struct{} // closed when agent, guard and descendants are gone
	status    string        // how the agent ended; set before exited is closed
	note      string        // what its group has to say about that; likewise

	once sync.Once // guards the shutdown of control
}

// guardThreads is the number of tasks that a guard itself may need.
const guardThreads = 16

// launch starts the guard and through it the agent. Output goes to logs.
func launch(order guard.Order, cgroups string, limits cgroup.Limits, logs *logCapture, timeout time.Duration) (*process, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	p := &process{control: ours, limits: limits, exited: make(chan struct{})}
	if err := p.makeGroup(cgroups); err != nil {
		closeAll([]*os.File{ours, theirs})
		return nil, err
	}
	var readers sync.WaitGroup
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"lightwork-guard"}
	cmd.Env = []string{guard.Env + "=1"}
	cmd.ExtraFiles = []*os.File{theirs}

	// The guard gets its own process group, so that ^C on the terminal reaches only
	// this program. It stays in this session: with autogroup the kernel shares the
	// processors by session, and a new session waits long on a busy machine. The guard
	// gives the agent its own session and so no terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipes, err := p.startWithPipes(cmd)
	theirs.Close()
	if err != nil {
		ours.Close()
		p.dissolve()
		return nil, fmt.Errorf("start guard: %w", err)
	}

	for i, name := range []string{"stdout", "stderr"} {
		readers.Go(func() {
			defer pipes[i].Close()
			logs.read(name, pipes[i])
		})
	}

	reports := frame.NewReader(ours, guard.MaxMessage)

	// The guard starts nothing before it receives its order, so everything that it
	// starts is in the group.
	p.pid, err = p.begin(reports, order, timeout)
	if err != nil {
		p.kill()
	}
	watched := p.watch(cmd.Process.Pid)
	go func() {
		defer close(p.exited)
		defer ours.Close()

		p.status = readExit(reports)
		p.kill()
		_ = cmd.Wait()
		if p.pid != 0 && p.status == "" {
			// The guard was killed. Its group died with it or dies here.
			_ = unix.Kill(-p.pid, unix.SIGKILL)
			p.status = "guard killed"
		}

		if over := watched(); over != nil {
			p.note = over.Error()
		}
		p.dissolve()
		for _, pipe := range pipes {
			// Only something that escaped can still hold the other end.
			_ = pipe.SetReadDeadline(time.Now().Add(time.Second))
		}

		readers.Wait()
	}()
	if err != nil {
		<-p.exited
		return nil, err
	}
	return p, nil
}

// makeGroup makes the group of the guard and all that it will start.
func (p *process) makeGroup(root string) error {
	if p.limits.Zero() {
		return nil
	}
	l := p.limits
	if l.Pids > 0 {
		l.Pids += guardThreads
	}
	var err error
	p.group, err = cgroup.New(root, l)
	if missing := (*cgroup.UnavailableError)(nil); errors.As(err, &missing) {
		p.unlimited = missing.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("limit agent: %w", err)
	}

	return nil
}

// watch stands in for a group that could not be made: it ends the agent when it
// is beyond its limits. The function that it returns ends the watch, and says
// which limit that was.
func (p *process) watch(root int) (stop func() error) {
	if p.group != nil || p.limits.Zero() {
		return func() error { return nil }
	}
	l := watchdog.Limits{MemoryBytes: p.limits.MemoryBytes, Tasks: p.limits.Pids, Every: watchEvery}
	if l.Tasks > 0 {
		l.Tasks += guardThreads
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		err := watchdog.Watch(ctx, root, l)
		if err != nil {
			p.kill()
		}
		over <- err
	}()
	return func() error {
		cancel()
		err := <-over
		if memory := (*watchdog.MemoryError)(nil); errors.As(err, &memory) {
			return fmt.Errorf("over its memory limit of %d MB", p.limits.MemoryBytes>>20)
		}
		return err
	}
}

// watchEvery is for agents, which live long: a look costs the more the more
// processes the machine has.
const watchEvery = 200 * time.Millisecond

// dissolve ends what is left in the group, and says whether the kernel had to
// kill for memory.
func (p *process) dissolve() {
	if p.group == nil {
		return
	}
	if n := p.group.OOMKills(); n > 0 {
		p.note = fmt.Sprintf("over its memory limit of %d MB", p.limits.MemoryBytes>>20)
	}
	if err := errors.Join(p.group.Kill(), p.group.Remove()); err != nil {
		p.note = err.Error()
	}
}

// begin sends the order and waits for the agent's pid.
func (p *process) begin(reports *frame.Reader, order guard.Order, timeout time.Duration) (int, error) {
	if err := p.control.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if err := p.send(order); err != nil {
		return 0, fmt.Errorf("order launch: %w", err)
	}

	doc, err := reports.Next()
	if err != nil {
		return 0, fmt.Errorf("%w (%w)", errNoGuard, err)
	}
	var report guard.Report
	if err := json.Unmarshal(doc, &report); err != nil || report.Error == "" && report.PID <= 1 {
		return 0, errNoGuard
	}
	if report.Error != "" {
		return 0, fmt.Errorf("launch agent: %s", report.Error)
	}

	p.confined = report.Confined
	return report.PID, p.control.SetDeadline(time.Time{})
}

func (p *process) send(v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := frame.Append(nil, doc, guard.MaxMessage)
	if err != nil {
		return err
	}
	_, err = p.control.Write(f)
	return err
}

// readExit waits for the guard's last word; "" if it never comes.
func readExit(reports *frame.Reader) string {
	doc, err := reports.Next()
	if err != nil {
		return ""
	}
	var report guard.Report
	if json.Unmarshal(doc, &report) != nil {
		return ""
	}
	return report.Exit
}

// terminate asks the agent's group to end, kills what is left after grace or
// when hurry is closed, and waits until all of it is gone.
func (p *process) terminate(grace time.Duration, hurry <-chan struct{}) {
	if grace > 0 && p.send(guard.Request{Terminate: true}) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
		case <-hurry:
		}
	}
	p.kill()
	<-p.exited
}

// kill ends the guard's control stream: it kills everything below it. The read
// half stays open for its last report.
func (p *process) kill() {
	p.once.Do(func() {
		raw, err := p.control.SyscallConn()
		if err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
		}
	})
}

// socketPair returns two connected, close-on-exec stream sockets; the first
// works with deadlines.
func socketPair() (ours, theirs *os.File, err error) {
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

// startWithPipes starts cmd in the group, if there is one, and returns the read
// ends of its stdout and stderr.
func (p *process) startWithPipes(cmd *exec.Cmd) (read [2]*os.File, err error) {
	var write [2]*os.File
	for i := range read {
		if read[i], write[i], err = os.Pipe(); err != nil {
			closeAll(read[:], write[:])
			return read, err
		}
	}

	cmd.Stdout, cmd.Stderr = write[0], write[1]
	if p.group != nil {
		err = p.group.Start(cmd)
	} else {
		err = cmd.Start()
	}

	closeAll(write[:])
	if err != nil {
		closeAll(read[:])
	}
	return read, err
}

func closeAll(lists ...[]*os.File) {
	for _, list := range lists {
		for _, f := range list {
			if f != nil {
				f.Close()
			}
		}
	}
}
