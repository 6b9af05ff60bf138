package builtin

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HideMemory keeps what is in this process's memory, its keys above all, out of
// core dumps and from other processes of the same user. A file of a dump has no
// room; a program that the kernel would hand a dump to gets none of a process that
// is not dumpable. The limit stays with the processes that this one starts.
//
// The agent that runs sandboxes needs to be seen by their first process; its guard
// has limited dumps of it, and it is given no key.
func HideMemory(args []string) error {
	if len(args) > 1 && args[0] == agentCommand && (args[1] == agentSandbox || args[1] == sandboxInit) {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limit core dumps: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the process's memory: %w", err)
	}
	return nil
}

// whileDumpable calls what starts a process in a user namespace of its own: the
// files that hold such a process's ids belong to root while its parent is hidden,
// and an ordinary user could not write them.
func whileDumpable(call func()) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil && was == 0 && unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) == nil {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	call()
}
