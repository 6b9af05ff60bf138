package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// HostChanged reports whether the host's toolchain is another one than HostManifest
// describes: somebody has upgraded a package since. Jobs would run on other tools
// than the digest says that they asked for.
func HostChanged() (bool, error) {
	if _, err := manifest(); err != nil {
		return false, err
	}
	return onHost.changed(hostStamps, describeHost)
}

// hostWatch compares the toolchain with what was read of it.
type hostWatch struct {
	mu     sync.Mutex
	doc    []byte   // as it was described first
	stamps []string // of its files, when they were last read
	other  bool     // what they came to then
}

var onHost hostWatch

// changed reads the files again only if one has another stamp: hashing takes a while.
func (w *hostWatch) changed(look func() []string, describe func() ([]byte, error)) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	now := look()
	if slices.Equal(now, w.stamps) {
		return w.other, nil
	}

	doc, err := describe()
	if err != nil {
		return false, err
	}
	w.stamps, w.other = now, !bytes.Equal(doc, w.doc)
	return w.other, nil
}

// hostStamps are those of the files that HostManifest hashes.
func hostStamps() []string {
	all := []string{stampOf("os-release", "/etc/os-release")}
	eachHostFile(func(name, path string) {
		all = append(all, stampOf(name, path))
	}, func(name, path string) bool {
		stamp := stampOf(name, path)
		if stamp != "" {
			all = append(all, stamp)
		}
		return stamp != ""
	})
	return all
}

// stampOf changes when a file is written, replaced or led elsewhere; "" if there is
// none.
func stampOf(name, path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	st, err := os.Stat(real)
	if err != nil {
		return ""
	}
	var inode uint64
	var changed syscall.Timespec
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode, changed = sys.Ino, sys.Ctim
	}
	return fmt.Sprintln(name, real, st.Size(), inode, changed)
}
