package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// The mounts and namespaces would not mind a bound port in a network of one's
// own: that it fails shows that the second wall stands.
func TestLandlockIsInForce(t *testing.T) {
	needsConfinement(t)
	if landlockVersion() < 4 {
		testclass.Unavailable(t, "the kernel has no Landlock of version 4")
	}
	require(t, "python3")
	for loopback, want := range map[bool]int{false: 13 /* EACCES */, true: 0} {
		j := testJob(`python3 -c '
import socket
for kind in (socket.AF_INET, socket.AF_INET6):
    try: socket.socket(kind).bind(("", 0)); print(0)
    except OSError as e: print(e.errno)'`)
		j.plan.Loopback = loopback
		out := confineJob(t, j)
		if got := out.runs[0].stdout.preview(100); got != fmt.Sprintf("%d\n%d\n", want, want) {
			t.Errorf("loopback %v: %s", loopback, describe(out))
		}
		if out.walls.Landlock != landlockVersion() || !strings.Contains(systemInfo("host", out), fmt.Sprintf("landlock %d", out.walls.Landlock)) {
			t.Errorf("reported as %q", systemInfo("host", out))
		}
	}
}

// A kernel refuses rules that it does not know.
func TestLandlockRulesFollowTheVersion(t *testing.T) {
	for _, tt := range []struct {
		abi     int
		network bool
		files   uint64 // one right that this version brought
		without uint64 // and one that it does not have
		net     bool
		scoped  bool
	}{
		{1, false, unix.LANDLOCK_ACCESS_FS_MAKE_SYM, unix.LANDLOCK_ACCESS_FS_REFER, false, false},
		{2, false, unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE, false, false},
		{3, false, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, false, false},
		{4, false, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, true, false},
		{4, true, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, false, false},
		{5, false, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0, true, false},
		{6, false, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0, true, true},
		{9, true, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0, false, true},
	} {
		r := landlockRules(tt.abi, tt.network)
		if r.Handled_access_fs&tt.files == 0 || r.Handled_access_fs&tt.without != 0 || r.Handled_access_net != 0 != tt.net || r.Scoped != 0 != tt.scoped {
			t.Errorf("version %d, network %v: %+v", tt.abi, tt.network, r)
		}
	}
}
