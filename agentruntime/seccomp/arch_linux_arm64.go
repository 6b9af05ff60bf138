package seccomp

import "golang.org/x/sys/unix"

// Arch is this architecture as the kernel names it to filters; 0 where nobody
// has made a list of its calls.
const Arch = unix.AUDIT_ARCH_AARCH64
