package sandbox

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
)

// newNamespaces are the flags of clone that make namespaces. CLONE_NEWTIME is
// not among them: clone has no room for it, and clone3 is refused altogether.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

var errNoSyscallList = errors.New("there is no list of allowed system calls for " + runtime.GOARCH)

// filterSyscalls refuses every system call that is not on the list, in all
// threads of this process and for good: whatever it starts inherits the
// filter. It needs no_new_privs. A refused call fails with ENOSYS, which
// programs take as an older kernel and do without, one that only privilege
// allows with EPERM; what comes in by another architecture's entrance ends the
// process.
func filterSyscalls(level Level, k keepers) error {
	prog, err := buildFilter(level, k)
	if err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	if err := seccomp.Install(prog, unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// buildFilter is one comparison a call, in a row: the kernel remembers which
// calls are allowed whatever their arguments, so the length costs nothing.
func buildFilter(level Level, k keepers) ([]unix.SockFilter, error) {
	if seccomp.Arch == 0 {
		return nil, errNoSyscallList
	}
	prog := seccomp.Begin(seccomp.Return(unix.SECCOMP_RET_KILL_PROCESS))
	for _, rule := range append(level.rules(k), argumentRules()...) { // of two for one call the first decides
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, rule.number, 0, uint8(len(rule.body))))
		prog = append(prog, rule.body...)
	}

	for _, list := range [][]uint32{commonCalls(), archCalls()} {
		for _, number := range list {
			prog = append(prog, seccomp.Jump(unix.BPF_JEQ, number, 0, 1), seccomp.Return(unix.SECCOMP_RET_ALLOW))
		}
	}

	for _, number := range privilegedCalls() {
		prog = append(prog, seccomp.Jump(unix.BPF_JEQ, number, 0, 1), seccomp.Refuse(unix.EPERM))
	}
	return append(prog, seccomp.Refuse(unix.ENOSYS)), nil
}

// argumentRule decides one call by its arguments. Its body always returns.
type argumentRule struct {
	number uint32
	body   []unix.SockFilter
}

// argumentRules look at the low 32 bits of an argument and at nothing else,
// because the kernel does so too for these: a rule that compared all 64 would
// let a number with a stray upper bit pass.
func argumentRules() []argumentRule {
	return []argumentRule{
		{unix.SYS_CLONE, []unix.SockFilter{
			seccomp.Arg(0),
			seccomp.Jump(unix.BPF_JSET, newNamespaces, 0, 1),
			seccomp.Refuse(unix.EPERM),
			seccomp.Return(unix.SECCOMP_RET_ALLOW),
		}},
		// Typing into somebody's terminal.
		{unix.SYS_IOCTL, []unix.SockFilter{
			seccomp.Arg(1),
			seccomp.Jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
			seccomp.Jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1),
			seccomp.Refuse(unix.EPERM),
			seccomp.Return(unix.SECCOMP_RET_ALLOW),
		}},
		{unix.SYS_PERSONALITY, oneOf(0, unix.EPERM, knownPersonalities())},
		// Limits are one's own affair; process 1 may have the same user.
		{unix.SYS_PRLIMIT64, oneOf(0, unix.EPERM, []uint32{0})},
		{unix.SYS_SOCKET, socketRule()},
		{unix.SYS_SOCKETPAIR, oneOf(0, unix.EAFNOSUPPORT, []uint32{unix.AF_UNIX})},
	}
}

// socketRule allows no more than programs need. Of the families that the
// network namespace holds, AF_VSOCK, for one, would reach a machine's host; and
// asking for a protocol that nobody uses has the kernel load its module.
func socketRule() []unix.SockFilter {
	const allow, family, protocol = 17, 18, 19 // places of the verdicts
	at := 0
	to := func(verdict int) uint8 { return uint8(verdict - at - 1) }
	var body []unix.SockFilter
	add := func(f unix.SockFilter) { body = append(body, f); at++ }
	is := func(value uint32, verdict int) { add(seccomp.Jump(unix.BPF_JEQ, value, to(verdict), 0)) }

	add(seccomp.Arg(0))
	is(unix.AF_UNIX, allow)
	add(seccomp.Jump(unix.BPF_JEQ, unix.AF_INET, 4, 0))
	add(seccomp.Jump(unix.BPF_JEQ, unix.AF_INET6, 3, 0))
	add(seccomp.Jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, to(family)))
	add(seccomp.Arg(2)) // of netlink, what lists interfaces
	add(seccomp.Jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, to(allow), to(family)))

	add(seccomp.Arg(1))
	add(unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}) // without flags
	add(seccomp.Jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0))
	add(seccomp.Jump(unix.BPF_JEQ, unix.SOCK_DGRAM, 0, to(protocol)))
	add(seccomp.Arg(2))
	for _, p := range []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP} {
		is(p, allow)
	}
	add(seccomp.Jump(unix.BPF_JEQ, unix.IPPROTO_ICMPV6, 0, to(protocol)))
	add(seccomp.Return(unix.SECCOMP_RET_ALLOW))
	add(seccomp.Refuse(unix.EAFNOSUPPORT))
	add(seccomp.Refuse(unix.EPROTONOSUPPORT))
	return body
}

// knownPersonalities are Linux, Linux with a 32-bit name, both with a 2.6
// version, Linux without address randomisation, which race detectors ask for,
// and the question which one it is.
func knownPersonalities() []uint32 {
	return []uint32{0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff}
}

// oneOf allows a call whose argument is in the list.
func oneOf(argument int, errno unix.Errno, allowed []uint32) []unix.SockFilter {
	body := []unix.SockFilter{seccomp.Arg(argument)}
	for _, value := range allowed {
		body = append(body, seccomp.Jump(unix.BPF_JEQ, value, 0, 1), seccomp.Return(unix.SECCOMP_RET_ALLOW))
	}
	return append(body, seccomp.Refuse(errno))
}
