package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// setIDWays are ways to leave a file that runs as its owner, beside a path.
func setIDWays(beside string) map[string]func() error {
	const mode = 0o4755
	made := func(way string, make func(path string) error) func() error {
		return func() error {
			path := beside + "-" + strings.ReplaceAll(way, " ", "-")
			if err := make(path); err != nil {
				return err
			}
			st, err := os.Stat(path)
			if err == nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
				err = errors.New("without the bit")
			}
			return err
		}
	}
	changed := func(change func(f *os.File) error) func(path string) error {
		return func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return change(f)
		}
	}
	closed := func(fd int, err error) error {
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	ways := map[string]func(path string) error{
		"chmod":  changed(func(f *os.File) error { return unix.Chmod(f.Name(), mode) }),
		"group":  changed(func(f *os.File) error { return unix.Chmod(f.Name(), 0o2755) }),
		"fchmod": changed(func(f *os.File) error { return unix.Fchmod(int(f.Fd()), mode) }),
		"fchmodat2": changed(func(f *os.File) error {
			return unix.Fchmodat(unix.AT_FDCWD, f.Name(), mode, unix.AT_SYMLINK_NOFOLLOW)
		}),
		"open": func(path string) error { return closed(unix.Open(path, unix.O_CREAT|unix.O_WRONLY, mode)) },
		"openat2": func(path string) error {
			return closed(unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: mode}))
		},
		"mknod": func(path string) error { return unix.Mknod(path, unix.S_IFREG|mode, 0) },
	}
	all := map[string]func() error{}
	for way, make := range ways {
		all[way] = made(way, make)
	}
	return all
}

func writeInto(dir string) string { return fmt.Sprintf(`{"write":%q}`, filepath.Join(dir, "new")) }

// TestConfinedAgentLeavesNoSetIDFile: what others on the machine could run as the
// agent's user, in a folder that the agent may change.
func TestConfinedAgentLeavesNoSetIDFile(t *testing.T) {
	own, other := t.TempDir(), t.TempDir()
	free, _ := reachFrom(t, nil, writeInto(other))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	confined, words := reachFrom(t, &guard.Confinement{
		Read: []string{"/usr", "/bin", "/lib", "/lib64", "/proc", "/dev/null", exe}, Write: []string{own, "/dev/null"},
	}, writeInto(own))
	switch {
	case strings.HasPrefix(words, "not confined"), runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64":
		testclass.Unavailable(t, words)
	case !strings.Contains(words, "no set-user-id files"):
		t.Error(words)
	}
	if confined["write"] != "reached" {
		t.Errorf("an ordinary file: %s", confined["write"])
	}
	tried := 0
	for what, got := range free {
		if !strings.HasPrefix(what, "set id by ") || got != "reached" {
			continue // not known to this kernel
		}
		tried++
		if confined[what] == "reached" || confined[what] == "without the bit" {
			t.Errorf("%s: %s", what, confined[what])
		}
	}
	if tried < 4 {
		t.Errorf("of the ways only %d work unconfined: %v", tried, free)
	}
}
