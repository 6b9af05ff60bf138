package sandbox

import "golang.org/x/sys/unix"

// archCalls are calls that have other names on arm64.
func archCalls() []uint32 { return []uint32{unix.SYS_FSTATAT, unix.SYS_RENAMEAT} }

func archPathCalls() []uint32 { return nil }

func archWatchCalls() []uint32 { return nil }
