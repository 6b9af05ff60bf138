package wasm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrNotPrivate means that other users could have changed one of our directories,
// from which compiled code is run unchecked.
var ErrNotPrivate = errors.New("wasm: directory must be owned by this user, have mode 0700 and not be a link")

// privateDir makes dir or checks the existing one.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check directory: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || owner.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%w: %s", ErrNotPrivate, dir)
	}
	return nil
}
