package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

// How a guard is started: as the own program, with Env set and its control
// socket at ControlFD. Messages there are JSON in frames of at most MaxMessage.
const (
	Env        = "LIGHTWORK_AGENT_GUARD"
	ControlFD  = 3
	MaxMessage = 1 << 20
)

// init runs the guard if the process was started as one. It does so in init, before
// other packages spend time on tables that a guard does not need.
func init() {
	switch role := os.Getenv(Env); role {
	case "":
	case doorRole:
		os.Exit(enter())
	default:
		os.Exit(run())
	}
}

// Order is the first message to a guard.
type Order struct {
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	UID  int      `json:"uid"`
	GID  int      `json:"gid"`
	// OpenFiles limits the descriptors of each process, the guard's own too;
	// 0 leaves them as they are.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// Files is how many descriptors behind ControlFD are handed on; the agent has
	// them from 3 on. One with a Confine gets none.
	Files   int          `json:"files,omitempty"`
	Confine *Confinement `json:"confine,omitempty"`
}

// Request is every further message to a guard.
type Request struct {
	Terminate bool `json:"terminate"` // SIGTERM to the agent's group
}

// Report is what a guard says: first PID or Error, at the end Exit.
type Report struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	// Confined says what confinement is in force.
	Confined string `json:"confined,omitempty"`
	Exit     string `json:"exit,omitempty"`
}

type guard struct {
	control  *os.File
	confined string

	mu     sync.Mutex // orders signals and reaping: a reaped pid is never signalled
	pid    int
	reaped bool
}

func run() int {
	// The parent-death signal follows the thread that started the agent.
	runtime.LockOSThread()

	// The agent must not inherit descriptors that the node got from its caller, such as
	// a log or a lock.
	if err := unix.CloseRange(ControlFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(ControlFD)
	}
	os.Unsetenv(Env)
	g := &guard{control: os.NewFile(ControlFD, "control")}
	if g.control == nil {
		return 2
	}

	// Caught, not ignored: an ignored signal stays ignored in the agent.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	in := frame.NewReader(g.control, MaxMessage)
	if err := g.launch(in); err != nil {
		g.report(Report{Error: err.Error()})
		return 1
	}
	g.report(Report{PID: g.pid, Confined: g.confined})
	go func() {
		for range signals {
			g.signal(unix.SIGTERM)
		}
	}()
	status := g.waitAgent()
	killBelow()
	g.report(Report{Exit: status})
	return 0
}

// report tells the supervisor. An error means that the supervisor is gone.
func (g *guard) report(r Report) { _ = send(g.control, r) }

func send(to *os.File, v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := frame.Append(nil, doc, MaxMessage)
	if err != nil {
		return err
	}
	_, err = to.Write(f)
	return err
}

func (g *guard) launch(in *frame.Reader) error {
	order, err := readOrder(in)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}

	// A memory dump of the agent would hold its token.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}

	if n := order.OpenFiles; n > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("limit open files to %d: %w", n, err)
		}
	}

	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()

	attr := &syscall.ProcAttr{
		Dir: order.Dir, Env: order.Env,
		Files: []uintptr{null.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if order.Confine != nil {
		return g.launchConfined(order, attr, in)
	}
	for i := range order.Files {
		attr.Files = append(attr.Files, ControlFD+1+uintptr(i))
	}
	if order.UID != 0 || order.GID != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(order.UID), Gid: uint32(order.GID)}
	}
	g.pid, err = syscall.ForkExec(order.Path, order.Argv, attr)
	if err != nil {
		return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
	}
	go g.obey(in)
	return nil
}

func readOrder(in *frame.Reader) (order Order, err error) {
	doc, err := in.Next()
	if err != nil {
		return order, fmt.Errorf("read launch order: %w", err)
	}
	if json.Unmarshal(doc, &order) != nil {
		return order, errors.New("read launch order: malformed")
	}
	return order, nil
}

// obey follows the supervisor until its end of the socket closes, which means
// that the agent must die.
func (g *guard) obey(in *frame.Reader) {
	for {
		doc, err := in.Next()
		if err != nil {
			g.signal(unix.SIGKILL)
			return
		}
		var req Request
		if json.Unmarshal(doc, &req) == nil && req.Terminate {
			g.signal(unix.SIGTERM)
		}
	}
}

// signal goes to the agent's whole process group.
func (g *guard) signal(sig unix.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = unix.Kill(-g.pid, sig)
	}
}

// child is siginfo_t of a child that has ended, whose pid unix.Siginfo does not show.
type child struct {
	signo, errno, code int32
	_                  [0]uintptr
	pid                int32
	_                  [112]byte
}

// waitAgent reaps children until the agent has ended, then kills what is left
// of its group.
func (g *guard) waitAgent() string {
	for {
		var ended child
		// WNOWAIT leaves the child a zombie, so its pid cannot be reused
		// before the group is dealt with under the lock.
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&ended)), unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "wait: " + err.Error()
		}
		if pid := int(ended.pid); pid != g.pid {
			// An orphan that came to us. An agent can make thousands a second: each
			// is one call, however many processes the machine has.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if status, ended := g.reap(); ended {
			return status
		}
	}
}

func (g *guard) reap() (status string, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, g.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	if err == nil && info.Signo == 0 {
		return "", false
	}
	_ = unix.Kill(-g.pid, unix.SIGKILL)

	var ws unix.WaitStatus
	for {
		_, err = unix.Wait4(g.pid, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}

	g.reaped = true
	switch {
	case err != nil:
		return "wait: " + err.Error(), true
	case ws.Signaled():
		return "signal: " + ws.Signal().String(), true
	}

	return "exit status " + strconv.Itoa(ws.ExitStatus()), true
}

// killBelow kills and reaps until this process has no child. It gets all descendants,
// because orphans become its children.
func killBelow() {
	for {
		_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.ECHILD {
			return
		}
		for _, pid := range Descendants(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return
		}
	}
}

// Descendants lists the processes below root.
func Descendants(root int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}

	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(path.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}

		// "pid (name) state ppid ...": the name may hold anything.
		_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			if ppid, err := strconv.Atoi(fields[1]); err == nil {
				children[ppid] = append(children[ppid], pid)
			}
		}
	}

	var all []int
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}

	return all
}
