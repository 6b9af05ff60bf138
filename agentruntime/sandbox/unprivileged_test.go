package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// unprivilegedEnv is set in the test program that runs as an ordinary user.
const unprivilegedEnv = "LIGHTWORK_TEST_UNPRIVILEGED"

// ordinaryID is a user without an account and without any right.
const ordinaryID = 54321

// asOrdinaryUser runs tests of this program again as an ordinary user, after
// prepare has seen the process, and returns what they print.
func asOrdinaryUser(t *testing.T, tests string, prepare func(pid int)) (string, error) {
	t.Helper()
	dir := publicDir(t)
	here := filepath.Join(dir, "agentruntime/sandbox")
	for to, from := range map[string]string{"docs": "../../docs", "examples/wordstat": "../../examples/wordstat", "agentruntime/sandbox/testdata": "testdata"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out strings.Builder
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"sandbox.test", "-test.v", "-test.run", tests}, Dir: here, Stdin: r, Stdout: &out, Stderr: &out,
		Env:         []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "HOME=" + tmp, unprivilegedEnv + "=1"},
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}},
	}
	if err := cmd.Start(); err != nil {
		w.Close()
		t.Fatal(err)
	}
	prepare(cmd.Process.Pid)
	w.Close()
	err = cmd.Wait()
	return out.String(), err
}

// delegate makes cgroups that the ordinary user may divide, as a service
// manager does, and puts a process there.
func delegate(t *testing.T, pid int) {
	t.Helper()
	name := fmt.Sprintf("delegated-%d", os.Getpid())
	tops := []string{filepath.Join(cgroup.DefaultRoot, name)}
	inside := "node" // the unified form divides no cgroup that has processes
	if cgroup.Version(cgroup.DefaultRoot) == 1 {
		tops, inside = nil, ""
		for _, c := range []string{"memory", "pids", "cpu"} {
			tops = append(tops, filepath.Join(cgroup.DefaultRoot, c, name))
		}
	}
	for _, top := range tops {
		if err := os.MkdirAll(filepath.Join(top, inside), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = os.Remove(filepath.Join(top, inside))
			if err := os.Remove(top); err != nil && !os.IsNotExist(err) {
				t.Errorf("something is left in a cgroup: %v", err)
			}
		})
		for _, file := range []string{"", "cgroup.procs", "cgroup.subtree_control", filepath.Join(inside, "cgroup.procs"), inside} {
			if err := os.Chown(filepath.Join(top, file), ordinaryID, ordinaryID); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(top, inside, "cgroup.procs"), fmt.Append(nil, pid), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root becomes another user")
	}
	tests := "^(TestEscapes|TestCanaries.*|TestMemoryIsBounded|TestDiskIsBounded|TestArchiveBombs.*|TestCommandIdentity|TestMountFlags|TestTimeoutKillsEverything|TestLeftover.*|TestRunExample|TestJobsRunOnAnImage|TestSourceIsA(Bundle|Remote)|TestCheck)$"
	out, err := asOrdinaryUser(t, tests, func(pid int) { delegate(t, pid) })
	if err != nil || strings.Count(out, "--- PASS: Test") < 10 || strings.Contains(out, "--- SKIP: Test") {
		t.Errorf("%v\n%s", err, failures(out))
	}
}

// Without a cgroup of its own an ordinary user confines nothing, and says so.
func TestOrdinaryUserWithoutCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root becomes another user")
	}
	out, err := asOrdinaryUser(t, "^TestOrdinaryUserIsRefused$", func(int) {})
	if err != nil || !strings.Contains(out, "--- PASS: TestOrdinaryUserIsRefused") {
		t.Errorf("%v\n%s", err, out)
	}
}

// failures leaves out what went well.
func failures(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
			_, _ = io.WriteString(&b, line)
		}
	}
	return b.String()
}

// TestOrdinaryUserIsRefused is run by TestOrdinaryUserWithoutCgroups.
func TestOrdinaryUserIsRefused(t *testing.T) {
	if os.Getenv(unprivilegedEnv) == "" {
		t.Skip("run by another test")
	}
	opts := testOptions(t)
	marker := filepath.Join(t.TempDir(), "ran")
	out, err := confine(t.Context(), testJob("touch "+marker), opts)
	if out != nil || !errors.Is(err, ErrCannotConfine) {
		t.Errorf("got %v, %v", out, err)
	}
	level, all := Check(t.Context(), opts, LevelFull)
	if level != "" {
		t.Errorf("level %q", level)
	}
	needed := map[string]bool{}
	for _, f := range all {
		needed[f.Name] = f.OK
		if !f.OK && (f.Fix == "" || f.Detail == "") {
			t.Errorf("%s does not say what to do", f.Name)
		}
	}
	if needed["memory, pids and cpu limits"] || !needed["system call filter"] || !needed["two ids"] {
		t.Errorf("features are %v", needed)
	}
}
