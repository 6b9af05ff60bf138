//go:build linux && !amd64 && !arm64

package seccomp

// Arch is this architecture as the kernel names it to filters; 0 where nobody
// has made a list of its calls.
const Arch = 0
