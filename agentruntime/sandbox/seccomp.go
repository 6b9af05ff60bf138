package sandbox

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
)

// newNamespaces are the flags of clone that create namespaces. CLONE_NEWTIME is
// missing because clone cannot take it, and clone3 is refused altogether.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

var errNoSyscallList = errors.New("there is no list of allowed system calls for " + runtime.GOARCH)

// filterSyscalls refuses every system call that is not on the list, permanently and
// in all threads of this process; descendants inherit the filter. It needs
// no_new_privs. A refused call fails with ENOSYS, so that programs fall back as on
// an older kernel; a privileged call fails with EPERM; a call through the interface
// of another architecture kills the process.
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

// buildFilter returns a sequence of one comparison per call. Its length costs
// nothing, because the kernel caches which calls are allowed regardless of their
// arguments.
func buildFilter(level Level, k keepers) ([]unix.SockFilter, error) {
	if seccomp.Arch == 0 {
		return nil, errNoSyscallList
	}
	prog := seccomp.Begin(seccomp.Return(unix.SECCOMP_RET_KILL_PROCESS))
	for _, rule := range append(level.rules(k), argumentRules()...) { // of two rules for a call, the first applies
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

// argumentRule allows or refuses one call by its arguments. Its body always
// returns.
type argumentRule struct {
	number uint32
	body   []unix.SockFilter
}

// argumentRules compare only the low 32 bits of an argument, because the kernel
// uses only these for the calls here: a rule for all 64 bits could be evaded by
// setting an upper bit.
func argumentRules() []argumentRule {
	return []argumentRule{
		{unix.SYS_CLONE, []unix.SockFilter{
			seccomp.Arg(0),
			seccomp.Jump(unix.BPF_JSET, newNamespaces, 0, 1),
			seccomp.Refuse(unix.EPERM),
			seccomp.Return(unix.SECCOMP_RET_ALLOW),
		}},
		// These requests insert input into another program's terminal.
		{unix.SYS_IOCTL, []unix.SockFilter{
			seccomp.Arg(1),
			seccomp.Jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0),
			seccomp.Jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1),
			seccomp.Refuse(unix.EPERM),
			seccomp.Return(unix.SECCOMP_RET_ALLOW),
		}},
		{unix.SYS_PERSONALITY, oneOf(0, unix.EPERM, allowedPersonalities())},
		// A process may change only its own limits; process 1 may have the same
		// user.
		{unix.SYS_PRLIMIT64, oneOf(0, unix.EPERM, []uint32{0})},
		{unix.SYS_SOCKET, socketRule()},
		{unix.SYS_SOCKETPAIR, oneOf(0, unix.EAFNOSUPPORT, []uint32{unix.AF_UNIX})},
	}
}

// socketRule allows only the socket families that programs need. A network
// namespace does not isolate all families: AF_VSOCK, for one, would reach a
// machine's host. And a request for an unused protocol makes the kernel load its
// module.
func socketRule() []unix.SockFilter {
	const allow, family, protocol = 17, 18, 19 // indices of the verdicts
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
	add(seccomp.Arg(2)) // of netlink, the protocol that lists interfaces
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

// allowedPersonalities are Linux, Linux with a 32-bit name, both with a 2.6 version,
// Linux without address randomisation (which race detectors request), and the query
// of the current one.
func allowedPersonalities() []uint32 {
	return []uint32{0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff}
}

// oneOf allows a call if the argument is in the list.
func oneOf(argument int, errno unix.Errno, allowed []uint32) []unix.SockFilter {
	body := []unix.SockFilter{seccomp.Arg(argument)}
	for _, value := range allowed {
		body = append(body, seccomp.Jump(unix.BPF_JEQ, value, 0, 1), seccomp.Return(unix.SECCOMP_RET_ALLOW))
	}
	return append(body, seccomp.Refuse(errno))
}

// keepers are the processes that a job at LevelLandlock must not signal: its
// process 1 and the ancestors, which may have the same user as the commands.
type keepers struct {
	pids     []int
	sameUser bool
}

// rules are the additional refusals of a level, where no other mechanism covers
// them.
func (l Level) rules(k keepers) (all []argumentRule) {
	switch l {
	case LevelLimits:
		return unboundedRules()
	case LevelLandlock:
		return append(unboundedRules(), sharedRules(k.pids, k.sameUser)...)
	}
	return nil
}

// refuse returns rules for calls that are refused regardless of their arguments.
func refuse(errno unix.Errno, calls ...uint32) (all []argumentRule) {
	for _, number := range calls {
		all = append(all, argumentRule{number, []unix.SockFilter{seccomp.Refuse(errno)}})
	}
	return all
}

// unboundedRules refuse memory that belongs to no process, which a watchdog would
// not see, and the choice of processors, which is a limit of the job.
func unboundedRules() []argumentRule {
	all := refuse(
		unix.ENOSYS, unix.SYS_MEMFD_CREATE,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
	)
	return append(all, refuse(unix.EPERM, unix.SYS_SCHED_SETAFFINITY)...)
}

// sharedRules refuse calls that reach beyond the job where it shares the machine's
// network and processes, perhaps as the same user as the node:
// network and processes, perhaps as the same user as the node:
//
//   - sockets, except pairs, which lead nowhere else;
//   - changes of a file by its path that Landlock cannot refuse: modes, owners,
//     times, attributes, and before its version 3 the length; if the commands have
//     their own user, its permissions refuse them;
//   - watching files, which Landlock does not refuse either;
//   - signals to keepers, to all processes and by descriptors, and the scheduling of
//     other processes.
func sharedRules(pids []int, sameUser bool) []argumentRule {
	all := refuse(unix.EAFNOSUPPORT, unix.SYS_SOCKET)
	all = append(all, refuse(unix.EPERM, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDMSG, unix.SYS_SENDMMSG)...)
	if sameUser {
		all = append(all, refuse(unix.EPERM, pathCalls()...)...)
		all = append(all, argumentRule{unix.SYS_UTIMENSAT, null(1)})
	}

	all = append(all, refuse(unix.EPERM, unix.SYS_TRUNCATE, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR)...)
	all = append(all, refuse(unix.ENOSYS, append(archWatchCalls(), unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH)...)...)
	all = append(all, argumentRule{unix.SYS_SENDTO, null(4)})
	for _, number := range []uint32{unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR} {
		all = append(all, argumentRule{number, oneOf(0, unix.EPERM, []uint32{0})})
	}
	for _, number := range []uint32{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		all = append(all, argumentRule{number, oneOf(1, unix.EPERM, []uint32{0})})
	}
	all = append(all, argumentRule{unix.SYS_FCNTL, noneOf(1, unix.F_SETOWN, fSetOwnEx, unix.F_SETSIG)})

	processes := []uint32{^uint32(0)} // all processes
	for _, pid := range pids {
		processes = append(processes, uint32(pid), uint32(-pid))
	}
	for _, number := range []uint32{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN} {
		all = append(all, argumentRule{number, noneOf(0, processes...)})
	}
	return all
}

// fSetOwnEx is F_SETOWN_EX.
const fSetOwnEx = 15

// pathCalls change a file that they name by a path.
func pathCalls() []uint32 {
	return append(archPathCalls(), unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT)
}

// null allows a call whose argument, an address, is null. The kernel uses all 64
// bits of it, so all are compared.
func null(argument int) []unix.SockFilter {
	return []unix.SockFilter{
		seccomp.Arg(argument),
		seccomp.Jump(unix.BPF_JEQ, 0, 0, 2),
		seccomp.HighArg(argument),
		seccomp.Jump(unix.BPF_JEQ, 0, 1, 0),
		seccomp.Refuse(unix.EPERM),
		seccomp.Return(unix.SECCOMP_RET_ALLOW),
	}
}

// noneOf refuses a call if the argument is in the list.
func noneOf(argument int, refused ...uint32) []unix.SockFilter {
	body := []unix.SockFilter{seccomp.Arg(argument)}
	for _, value := range refused {
		body = append(body, seccomp.Jump(unix.BPF_JEQ, value, 0, 1), seccomp.Refuse(unix.EPERM))
	}
	return append(body, seccomp.Return(unix.SECCOMP_RET_ALLOW))
}
