//go:build !amd64 && !arm64

package sandbox

// There is no list for this architecture: seccomp.Arch is 0, and the sandbox
// refuses to run.

func commonCalls() []uint32     { return nil }
func archCalls() []uint32       { return nil }
func privilegedCalls() []uint32 { return nil }
func archPathCalls() []uint32   { return nil }
func archWatchCalls() []uint32  { return nil }
