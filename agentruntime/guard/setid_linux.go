package guard

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets into struct seccomp_data of a little-endian machine.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	// setIDBits make a file run as its owner or its group, whoever starts it.
	setIDBits = unix.S_ISUID | unix.S_ISGID
	// x32Bit marks calls of the x32 ABI, which has numbers of its own.
	x32Bit = 0x40000000
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

// denySetID has the calling thread, and what it starts, make no set-user-id or
// set-group-id file: whoever on this machine can reach such a file would run it
// with the rights of the agent's user, which Landlock says nothing about. False
// where the kernel cannot, or this architecture has no list of the calls. It needs no_new_privs.
func denySetID() (bool, error) {
	if auditArch == 0 {
		return false, nil
	}
	prog := setIDFilter()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if errno == unix.EINVAL || errno == unix.ENOSYS {
		return false, nil // a kernel without filters
	}
	if errno != 0 {
		return false, fmt.Errorf("deny set-user-id files: %w", errno)
	}
	return true, nil
}

// setIDFilter refuses such modes with EPERM. What takes the mode where a filter
// cannot read it (openat2, io_uring), or comes in by another architecture's
// entrance, is refused as a call that this kernel has not: programs do without.
func setIDFilter() []unix.SockFilter {
	prog := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		refuse(unix.ENOSYS),
		load(offsetNumber),
		jump(unix.BPF_JGE, x32Bit, 0, 1),
		refuse(unix.ENOSYS),
	}
	for _, number := range []uint32{unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP} {
		prog = append(prog, jump(unix.BPF_JEQ, number, 0, 1), refuse(unix.ENOSYS))
	}
	for _, c := range modeCalls() {
		body := c.rule()
		prog = append(prog, jump(unix.BPF_JEQ, c.number, 0, uint8(len(body))))
		prog = append(prog, body...)
	}
	return append(prog, ret(unix.SECCOMP_RET_ALLOW))
}

// rule decides the call; it always returns.
func (c modeCall) rule() []unix.SockFilter {
	var body []unix.SockFilter
	if c.flags > 0 { // else the mode is whatever was in the register
		body = append(body,
			load(offsetArgs+uint32(c.flags)*8),
			jump(unix.BPF_JSET, unix.O_CREAT|tmpfile, 1, 0),
			ret(unix.SECCOMP_RET_ALLOW))
	}
	return append(body,
		load(offsetArgs+uint32(c.mode)*8),
		jump(unix.BPF_JSET, setIDBits, 0, 1),
		refuse(unix.EPERM),
		ret(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(condition uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | condition | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func refuse(errno unix.Errno) unix.SockFilter {
	return ret(unix.SECCOMP_RET_ERRNO | uint32(errno)&unix.SECCOMP_RET_DATA)
}
