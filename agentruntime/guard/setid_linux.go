package guard

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
)

const (
	// setIDBits make a file run as its owner or its group, whoever starts it.
	setIDBits = unix.S_ISUID | unix.S_ISGID
	// tmpfile is O_TMPFILE without the O_DIRECTORY in it.
	tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
)

// modeCall is a system call that gives a file its mode.
type modeCall struct {
	number uint32
	mode   int // which argument
	flags  int // which argument must say that a file is made; 0: it always is
}

// modeCalls are those of every architecture.
func modeCalls() []modeCall {
	return append(archModeCalls(),
		modeCall{number: unix.SYS_FCHMOD, mode: 1},
		modeCall{number: unix.SYS_FCHMODAT, mode: 2},
		modeCall{number: unix.SYS_FCHMODAT2, mode: 2},
		modeCall{number: unix.SYS_MKNODAT, mode: 2},
		modeCall{number: unix.SYS_OPENAT, mode: 3, flags: 2},
	)
}

// filterCalls has the calling thread, and what it starts, make no set-user-id or
// set-group-id file: whoever on this machine can reach such a file would run it
// with the rights of the agent's user, which Landlock says nothing about. Without
// sockets it makes none but those of the file system either: Landlock denies TCP
// and no other protocol. False where the kernel cannot, or this architecture has
// no list of the calls. It needs no_new_privs.
func filterCalls(noSockets bool) (bool, error) {
	if seccomp.Arch == 0 {
		return false, nil
	}
	err := seccomp.Install(callFilter(noSockets), 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return false, nil // a kernel without filters
	}
	if err != nil {
		return false, fmt.Errorf("filter system calls: %w", err)
	}
	return true, nil
}

// callFilter refuses such modes with EPERM. What takes the mode where a filter
// cannot read it (openat2, io_uring), or comes in by another architecture's
// entrance, is refused as a call that this kernel has not: programs do without.
func callFilter(noSockets bool) []unix.SockFilter {
	prog := seccomp.Begin(seccomp.Refuse(unix.ENOSYS))
	for _, number := range []uint32{unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP} {
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, number, 0, 1), seccomp.Refuse(unix.ENOSYS))
	}

	for _, c := range modeCalls() {
		body := c.rule()
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, c.number, 0, uint8(len(body))))
		prog = append(prog, body...)
	}

	if noSockets {
		prog = append(prog,
			seccomp.Jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 3),
			seccomp.Arg(0),
			seccomp.Jump(unix.BPF_JEQ, unix.AF_UNIX, 1, 0),
			seccomp.Refuse(unix.EAFNOSUPPORT), // what a machine without that network says
		)
	}

	return append(prog, seccomp.Return(unix.SECCOMP_RET_ALLOW))
}

// rule decides the call; it always returns.
func (c modeCall) rule() []unix.SockFilter {
	var body []unix.SockFilter
	if c.flags > 0 { // else the mode is whatever was in the register
		body = append(body,
			seccomp.Arg(c.flags),
			seccomp.Jump(unix.BPF_JSET, unix.O_CREAT|tmpfile, 1, 0),
			seccomp.Return(unix.SECCOMP_RET_ALLOW))
	}

	return append(body,
		seccomp.Arg(c.mode),
		seccomp.Jump(unix.BPF_JSET, setIDBits, 0, 1),
		seccomp.Refuse(unix.EPERM),
		seccomp.Return(unix.SECCOMP_RET_ALLOW))
}
