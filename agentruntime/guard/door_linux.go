package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

// doorRole is the value of Env with which a guard starts the process that
// confines itself and then becomes the agent. The guard must stay outside: the
// kernel lets processes of one Landlock domain signal and trace each other, and
// takes the domain from any thread of the target.
const doorRole = "door"

// launchConfined starts the agent through its door.
func (g *guard) launchConfined(order Order, attr *syscall.ProcAttr, in *frame.Reader) error {
	if order.Files > 0 {
		return errors.New("a confined agent gets no files")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
	}
	door, theirs := os.NewFile(uintptr(fds[0]), "door"), os.NewFile(uintptr(fds[1]), "door")
	defer door.Close()

	// With few threads, which count towards the agent's limit until it has begun.
	attr.Dir, attr.Env = "/", []string{Env + "=" + doorRole, "GOMAXPROCS=1"}
	attr.Files = append(attr.Files, theirs.Fd())
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"lightwork-agent"}, attr)
	theirs.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
	}
	g.pid = pid
	go g.obey(in) // from here on there is something to end

	if err := send(door, order); err != nil {
		return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
	}

	answers := frame.NewReader(door, MaxMessage)
	confined := false
	for {
		doc, err := answers.Next()
		if errors.Is(err, io.EOF) && confined {
			return nil // the door has become the agent
		}
		if err != nil {
			return fmt.Errorf("start %s: ended while it was confined: %w", path.Base(order.Path), err)
		}

		var r Report
		if err := json.Unmarshal(doc, &r); err != nil {
			return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
		}
		if r.Error != "" {
			return errors.New(r.Error)
		}

		g.confined, confined = r.Confined, true
	}
}

// enter is the door: it reads the order, confines itself, and becomes the agent.
func enter() int {
	// The confinement is this thread's, and the agent takes the thread over.
	runtime.LockOSThread()
	unix.CloseOnExec(ControlFD)
	os.Unsetenv(Env)
	control := os.NewFile(ControlFD, "door")
	if control == nil {
		return 2
	}
	err := become(control)
	_ = send(control, Report{Error: err.Error()})
	return 1
}

// become returns only with an error.
func become(control *os.File) error {
	parent := os.Getppid() // the guard: if it were gone, its death had ended this process
	order, err := readOrder(frame.NewReader(control, MaxMessage))
	if err != nil {
		return err
	}
	if order.Confine == nil {
		return errors.New("read launch order: without a confinement")
	}

	words, err := order.Confine.apply()
	if err != nil {
		return err
	}
	if order.UID != 0 || order.GID != 0 {
		if err := errors.Join(syscall.Setgroups([]int{}), syscall.Setresgid(order.GID, order.GID, order.GID), syscall.Setresuid(order.UID, order.UID, order.UID)); err != nil {
			return fmt.Errorf("become user %d: %w", order.UID, err)
		}
		// A change of the user clears the death signal.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("set parent death signal: %w", err)
		}
		if os.Getppid() != parent {
			return errors.New("the guard is gone")
		}
	}

	if err := send(control, Report{Confined: words}); err != nil {
		return err
	}

	if order.Dir != "" {
		if err := os.Chdir(order.Dir); err != nil {
			return fmt.Errorf("start %s: %w", path.Base(order.Path), err)
		}
	}

	return fmt.Errorf("start %s: %w", path.Base(order.Path), syscall.Exec(order.Path, order.Argv, order.Env))
}
