package guard

import "golang.org/x/sys/unix"

// archModeCalls are the older forms, which later architectures left out.
func archModeCalls() []modeCall {
	return []modeCall{
		{number: unix.SYS_CHMOD, mode: 1},
		{number: unix.SYS_CREAT, mode: 1},
		{number: unix.SYS_MKNOD, mode: 1},
		{number: unix.SYS_OPEN, mode: 2, flags: 1},
	}
}
