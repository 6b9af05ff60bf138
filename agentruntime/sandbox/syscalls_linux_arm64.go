package sandbox

import "golang.org/x/sys/unix"

// archCalls are the calls that arm64 spells in its own way.
func archCalls() []uint32 { return []uint32{unix.SYS_FSTATAT, unix.SYS_RENAMEAT} }

func archPathCalls() []uint32 { return nil }

func archWatchCalls() []uint32 { return nil }
