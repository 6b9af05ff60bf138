package relay

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeyFileOnAFullDisk: what could be written in part only is not left behind,
// where it would be in the way of the next try or be taken for a key.
func TestKeyFileOnAFullDisk(t *testing.T) {
	const place = "LIGHTWORK_KEY_FILE"
	if path := os.Getenv(place); path != "" { // a process of its own: the limit is all of a process's
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 8, Max: 8}); err != nil {
			t.Fatal(err)
		}
		if err := WriteKeyFile(path, "a secret of more than eight bytes"); !errors.Is(err, unix.EFBIG) {
			t.Errorf("written: %v", err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "key")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKeyFileOnAFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), place+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
