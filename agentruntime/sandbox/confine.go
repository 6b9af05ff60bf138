package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
)

// Host ids of the sandbox when the agent is root: commands run as nobody, process 1
// under an id without an account.
const (
	hostCommandID = 65534
	hostInitID    = 65533
)

// stopReason says why a job was killed.
type stopReason string

const (
	stopNone      stopReason = ""
	stopTimeout   stopReason = "timeout"
	stopCancelled stopReason = "cancelled"
	stopLimit     stopReason = "limit"
)

// job is the input of confine, outcome its result.
type job struct {
	plan    plan
	source  []byte  // tar.gz
	tree    string  // or a file with it
	origin  origin  // the server that the proxy connects to
	network Network // or the network of a job with network policy "full"
	limits  cgroup.Limits
	timeout time.Duration
	keep    bool // keep artifacts in memory
}

type outcome struct {
	runs      []*commandRun
	artifacts []artifact
	stopped   stopReason
	limit     string // the limit that stopped the job
	oomKills  int
	// forksRefused counts attempts to exceed the job's number of processes and
	// threads.
	forksRefused int
	level        Level
	version      int // of the cgroup hierarchy; 0 at the levels without one
	walls        walls
}

// confine runs one job. It returns an error only if the sandbox itself failed;
// failures of the commands are part of the outcome.
func confine(ctx context.Context, request *job, opts Options) (_ *outcome, err error) {
	j := *request
	j.plan.Level, j.plan.Tmp, j.plan.Artifacts = opts.Level, "/tmp", artifactMount
	b, err := newBounds(&j, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if removeErr := b.remove(); removeErr != nil {
			opts.Logger.Error("sandbox left something behind", "err", removeErr)
		}
	}()

	// The kernel ties the parent-death signal to the thread that starts process 1.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	p, err := startInit(opts.Init, &j, b)
	if err != nil {
		return nil, err
	}
	p.proxy.start(ctx)
	watch := newWatch(ctx, j.timeout, p.stop, b.watch(&j, p.root))
	c := &collector{plan: &j.plan, pids: j.limits.Pids, stream: opts.Stream, artifacts: artifactStore{dir: opts.ArtifactDir, keep: j.keep}}
	c.out.level, c.out.version = opts.Level, b.version()
	err = func() error {
		if err := p.send(&j); err != nil {
			// Process 1 reports its reason and ends when it gets no plan; that says
			// more than the broken pipe.
			opts.Logger.Debug("sandbox did not take its plan", "err", err)
			p.plan.Close()
		}
		return c.collect(p.report)
	}()
	p.kill()
	c.artifacts.abandon()
	reason, over := watch.stop()
	c.out.oomKills, c.out.forksRefused = b.events()
	return c.conclude(err, reason, over, p.complaint.String())
}

// process is process 1 of a sandbox, seen from outside: of a pid namespace or, at
// LevelLandlock, the first process below a guard.
type process struct {
	cmd       *exec.Cmd       // nil below a guard
	guarded   *guardedProgram // nil without a guard
	root      int             // pid of the topmost process
	plan      *os.File        // written once, then held open as a sign that the agent lives
	report    *os.File
	complaint *boundedBuffer
	proxy     *proxy // nil: no network
}

// startInit starts this program in new namespaces and in its cgroups, where it
// waits for its plan.
func startInit(argv []string, j *job, b *bounds) (_ *process, err error) {
	planR, planW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	defer planR.Close()

	reportR, reportW, err := os.Pipe()
	if err != nil {
		planW.Close()
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	defer reportW.Close()

	p := &process{plan: planW, report: reportR, complaint: &boundedBuffer{limit: 4 << 10}}
	files := []*os.File{planR, reportW} // planFD, reportFD
	if j.plan.Proxy {
		var childEnd *os.File
		if p.proxy, childEnd, err = newProxy(j.origin, j.network); err != nil {
			p.close()
			return nil, err
		}
		defer childEnd.Close()
		files = append(files, childEnd) // proxyFD
	}

	if j.plan.Level == LevelLandlock {
		if err := p.startGuarded(argv, files); err != nil {
			p.close()
			return nil, err
		}
		return p, nil
	}

	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: argv, Env: []string{}, Dir: "/",
		ExtraFiles: files, Stderr: p.complaint, SysProcAttr: namespaces(j.plan.Split),
	}
	err = b.start(p.cmd)
	if missing := (*cgroup.UnavailableError)(nil); errors.As(err, &missing) {
		p.close()
		return nil, &ConfineError{Missing: missing.Missing}
	}
	if err != nil {
		p.close()
		return nil, &ConfineError{Missing: []string{fmt.Sprintf(
			"namespaces: %v (allow user namespaces: sysctl user.max_user_namespaces, and the container or AppArmor profile)", err)}}
	}

	p.root = p.cmd.Process.Pid
	return p, nil
}

// startGuarded starts this program below a guard, which ends all of its
// descendants, because without a pid namespace the kernel does not.
func (p *process) startGuarded(argv []string, files []*os.File) (err error) {
	order := guard.Order{Path: "/proc/self/exe", Argv: argv, Env: []string{guardedEnv + "=1"}, Dir: "/"}
	if uid := commandUser(); uid != os.Geteuid() {
		order.UID, order.GID = uid, uid
	}
	if p.guarded, err = startUnderGuard(order, files, p.complaint, startTimeout); err != nil {
		return &ConfineError{Missing: []string{"a guard: " + err.Error()}}
	}
	p.root = p.guarded.guard
	return nil
}

// startTimeout bounds the start of the sandbox by a guard.
const startTimeout = 30 * time.Second

func namespaces(split bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS |
			unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:   syscall.SIGKILL,
		AmbientCaps: initCaps(),
	}
	if split {
		ids := []syscall.SysProcIDMap{
			{ContainerID: splitID, HostID: hostInitID, Size: 1},
			{ContainerID: commandID, HostID: hostCommandID, Size: 1},
		}
		attr.UidMappings, attr.GidMappings = ids, ids
		attr.GidMappingsEnableSetgroups = true
		return attr
	}

	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: commandID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: commandID, HostID: os.Getegid(), Size: 1}}
	return attr
}

// send sends the plan and the source. The pipe stays open.
func (p *process) send(j *job) error {
	doc, err := json.Marshal(j.plan)
	if err != nil {
		return err
	}
	w := &frameWriter{w: p.plan}
	if err := w.write(framePlan, doc); err != nil {
		return err
	}
	if !j.plan.Source {
		return nil
	}

	var from io.Reader = bytes.NewReader(j.source)
	if j.tree != "" {
		f, err := os.Open(j.tree)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	return w.writeStream(frameSource, from)
}

// kill ends every process of the sandbox and waits for them. The kernel reports the
// end of process 1 only after the rest of its namespace is dead.
func (p *process) kill() {
	p.stop()
	p.close()
	if p.guarded != nil {
		p.guarded.kill()
		return
	}
	_ = p.cmd.Wait()
}

// stop starts to end every process without waiting.
func (p *process) stop() {
	if p.guarded != nil {
		p.guarded.stop()
		return
	}
	_ = p.cmd.Process.Kill()
}

func (p *process) close() {
	p.plan.Close()
	p.report.Close()
	p.proxy.stop()
}

// watch stops the job at its timeout, when the caller cancels, or when it exceeds
// its bounds.
type watch struct {
	done     chan struct{}
	reason   chan stopReason
	exceeded error
}

// newWatch starts a watch. bound returns an error when the job exceeds its bounds.
func newWatch(ctx context.Context, timeout time.Duration, stop func(), bound func(context.Context) error) *watch {
	w := &watch{done: make(chan struct{}), reason: make(chan stopReason, 1)}
	bounded, unbind := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- bound(bounded) }()
	go func() {
		timer := time.NewTimer(timeout)
		defer timer.Stop()

		reason, judged := stopNone, over
	wait:
		for {
			select {
			case <-w.done:
				break wait
			case <-timer.C:
				reason = stopTimeout
				break wait
			case <-ctx.Done():
				reason = stopOf(ctx)
				break wait
			case w.exceeded = <-judged:
				if judged = nil; w.exceeded != nil {
					reason = stopLimit
					break wait
				}
			}
		}
		if reason != stopNone {
			stop()
		}
		unbind()
		if judged != nil {
			<-over
		}
		w.reason <- reason
	}()
	return w
}

// stopOf converts the end of a caller's context to a stopReason.
func stopOf(ctx context.Context) stopReason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return stopTimeout
	}
	return stopCancelled
}

// stop ends the watch. It returns the reason if the job was killed, and the
// exceeded bound.
func (w *watch) stop() (stopReason, error) {
	close(w.done)
	reason := <-w.reason
	return reason, w.exceeded
}

// boundedBuffer keeps the beginning of the messages of a crashing init.
type boundedBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	limit int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p[:min(len(p), b.limit-b.buf.Len())])
	return len(p), nil
}

func (b *boundedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
