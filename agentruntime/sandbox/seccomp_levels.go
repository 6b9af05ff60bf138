package sandbox

import (
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
)

// keepers are the processes that a job at LevelLandlock must not signal: its
// process 1 and those above, which may have the commands' user too.
type keepers struct {
	pids     []int
	sameUser bool
}

// rules are what the filter refuses at a level beside what it refuses at all of
// them, because nothing else there would hold it.
func (l Level) rules(k keepers) (all []argumentRule) {
	switch l {
	case LevelLimits:
		return unboundedRules()
	case LevelLandlock:
		return append(unboundedRules(), sharedRules(k.pids, k.sameUser)...)
	}
	return nil
}

// refuse makes rules for calls that are refused whatever their arguments.
func refuse(errno unix.Errno, calls ...uint32) (all []argumentRule) {
	for _, number := range calls {
		all = append(all, argumentRule{number, []unix.SockFilter{seccomp.Refuse(errno)}})
	}
	return all
}

// unboundedRules refuse memory that belongs to no process, which a watchdog
// would not see, and the choice of processors, which is the job's limit.
func unboundedRules() []argumentRule {
	all := refuse(
		unix.ENOSYS, unix.SYS_MEMFD_CREATE,
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
	)
	return append(all, refuse(unix.EPERM, unix.SYS_SCHED_SETAFFINITY)...)
}

// sharedRules refuse what reaches beyond the job where it shares the machine's
// network and processes, perhaps as the same user as the node:
//
//   - sockets, but for pairs of them, which lead nowhere else;
//   - what changes a file by its path and is not for Landlock to refuse: modes,
//     owners, times, attributes, and before its version 3 the length; where the
//     commands have a user of their own, that user's rights refuse it;
//   - watching files, which Landlock does not refuse either;
//   - signals to keepers, to everybody, and by descriptors; and the scheduling of
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

	processes := []uint32{^uint32(0)} // everybody
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

// null allows a call whose argument, an address, is null. The kernel looks at
// all 64 bits of it, so this does too.
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

// noneOf refuses a call whose argument is in the list.
func noneOf(argument int, refused ...uint32) []unix.SockFilter {
	body := []unix.SockFilter{seccomp.Arg(argument)}
	for _, value := range refused {
		body = append(body, seccomp.Jump(unix.BPF_JEQ, value, 0, 1), seccomp.Refuse(unix.EPERM))
	}
	return append(body, seccomp.Return(unix.SECCOMP_RET_ALLOW))
}
