package seccomp

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets into struct seccomp_data. Every architecture with an Arch is little
// endian, so the low half of an argument comes first.
const (
	OffsetNumber = 0
	OffsetArch   = 4
	OffsetArgs   = 16
)

// X32Bit marks calls of the x32 ABI of amd64, which has numbers of its own.
const X32Bit = 0x40000000

// Begin is how a filter begins: what comes in by another architecture's
// entrance meets the verdict foreign, a call of the x32 ABI is one that this
// kernel has not (ENOSYS), and of any other the number is loaded.
func Begin(foreign unix.SockFilter) []unix.SockFilter {
	return []unix.SockFilter{
		load(OffsetArch),
		Jump(unix.BPF_JEQ, Arch, 1, 0),
		foreign,
		load(OffsetNumber),
		Jump(unix.BPF_JGE, X32Bit, 0, 1),
		Refuse(unix.ENOSYS),
	}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// Arg loads the low 32 bits of argument n, from 0 on.
func Arg(n int) unix.SockFilter { return load(OffsetArgs + uint32(n)*8) }

// HighArg loads the high 32 bits of argument n.
func HighArg(n int) unix.SockFilter { return load(OffsetArgs + uint32(n)*8 + 4) }

// Jump compares what is loaded with k by a condition (unix.BPF_JEQ, ...) and
// skips as many instructions as yes or no says.
func Jump(condition uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | condition | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

// Return ends the filter with an action, unix.SECCOMP_RET_ALLOW for one.
func Return(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// Refuse ends the filter: the call fails with errno.
func Refuse(errno unix.Errno) unix.SockFilter {
	return Return(unix.SECCOMP_RET_ERRNO | uint32(errno)&unix.SECCOMP_RET_DATA)
}

// Install puts a filter in force for the calling thread, with the flag
// unix.SECCOMP_FILTER_FLAG_TSYNC for all threads, and for what they start from
// then on, for good. It needs no_new_privs. Its errors wrap the kernel's:
// unix.EINVAL and unix.ENOSYS are of a kernel without filters.
func Install(prog []unix.SockFilter, flags uintptr) error {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d cannot take the filter", thread)
	}
	return nil
}
