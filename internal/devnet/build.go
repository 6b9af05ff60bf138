package devnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// set is a group of programs: the module under internal/devnet that pins the
// versions, the programs by import path, and their build tags.
type set struct {
	module   string
	programs map[string]string
	tags     string
}

// lightningPrograms are the programs of Build, with lnd's sub-servers.
func lightningPrograms() set {
	return set{"binaries", map[string]string{
		"btcd":  "github.com/btcsuite/btcd",
		"lnd":   "github.com/lightningnetwork/lnd/cmd/lnd",
		"lncli": "github.com/lightningnetwork/lnd/cmd/lncli",
	}, "signrpc walletrpc chainrpc invoicesrpc routerrpc"}
}

// Build builds btcd, lnd and lncli in the versions pinned by binaries/go.mod and
// returns their directory. It builds only missing programs: about four minutes on
// two cores the first time, nothing afterwards.
//
// The directory is below cacheDir and named after the pinned versions; an empty
// cacheDir means lightwork/devnet in the user's cache. The working directory must
// be inside a checkout of the project. Concurrent builds wait for each other.
func Build(ctx context.Context, cacheDir string) (binDir string, err error) {
	return lightningPrograms().build(ctx, cacheDir)
}

func (s set) build(ctx context.Context, cacheDir string) (binDir string, err error) {
	if cacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find cache for the programs: %w", err)
		}
		cacheDir = filepath.Join(base, "lightwork", "devnet")
	}

	source, err := sourceDir(ctx, s.module)
	if err != nil {
		return "", err
	}
	id, err := versionsID(source, s.tags)
	if err != nil {
		return "", err
	}
	binDir, err = filepath.Abs(filepath.Join(cacheDir, id))
	if err != nil {
		return "", err
	}
	if s.haveAll(binDir) {
		return binDir, nil
	}
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return "", fmt.Errorf("make cache for the programs: %w", err)
	}

	unlock, err := lock(filepath.Join(binDir, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	if s.haveAll(binDir) { // another process was faster
		return binDir, nil
	}
	return binDir, s.goBuild(ctx, source, binDir)
}

// sourceDir returns the folder of the module that pins the programs. It is found
// through the checkout, since a module cannot embed files of another one.
func sourceDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find checkout: %w", err)
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "internal", "devnet", module)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("find checkout: the working directory is not in one: %w", err)
	}
	return dir, nil
}

// versionsID identifies the pinned versions, so that new versions get a new
// directory.
func versionsID(source, tags string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", fmt.Errorf("read pinned versions: %w", err)
		}
		h.Write(content)
	}
	h.Write([]byte(tags))
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

func (s set) haveAll(dir string) bool {
	for name := range s.programs {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// goBuild builds in a temporary directory and renames the programs, so that those
// in binDir are always complete.
func (s set) goBuild(ctx context.Context, source, binDir string) error {
	tmp, err := os.MkdirTemp(binDir, ".build-")
	if err != nil {
		return fmt.Errorf("build programs: %w", err)
	}
	defer os.RemoveAll(tmp)

	args := []string{
		"build", "-mod=readonly", "-trimpath", "-tags=" + s.tags,
		"-ldflags=-s -w", "-o", tmp + string(filepath.Separator),
	}
	for _, path := range s.programs {
		args = append(args, path)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source

	// Use the pinned versions whatever workspace or flags the caller has.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build programs: %w\n%s", err, bytes.TrimSpace(out))
	}

	for name := range s.programs {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(binDir, name)); err != nil {
			return fmt.Errorf("build programs: %w", err)
		}
	}

	return nil
}

// lock takes an advisory lock, which is released when its holder dies.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}

	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}

	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
