package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// The test program is its own process 1: started with this argument it is not
// a test run but the inside of a sandbox.
const initArgument = "sandbox-init"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == initArgument {
		os.Exit(Init())
	}
	if os.Getenv(unprivilegedEnv) != "" {
		// Whoever started this moves it into its cgroups first.
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if os.Geteuid() == 0 && os.Getenv(apartEnv) == "" {
		if code, ok := apart(); ok {
			os.Exit(code)
		}
	}
	if os.Getenv(apartEnv) != "" {
		// As where systemd starts programs: mounts of a sandbox would be seen here.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
			fmt.Fprintln(os.Stderr, "share mounts:", err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// apartEnv is set where the tests run with mounts of their own.
const apartEnv = "LIGHTWORK_SANDBOX_TEST_APART"

// apart runs the tests with mounts of their own: those of the host, which must not
// change by what a sandbox does, change by what others on the machine do. False
// where root may not have mounts of its own, as in a container.
func apart() (code int, ok bool) {
	runtime.LockOSThread() // whose end would be the child's
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "no mounts apart from the host's:", err)
		return 0, false
	}
	return cmd.ProcessState.ExitCode(), true
}

func testOptions(t testing.TB) Options {
	t.Helper()
	return Options{
		Init:        []string{"sandbox.test", initArgument},
		ArtifactDir: t.TempDir(),
		CgroupRoot:  "/sys/fs/cgroup",
		Level:       testLevel,
		WorkDir:     os.TempDir(),
		MaxPids:     defaultPids,
		Logger:      slog.New(slog.DiscardHandler),
	}
}

// testLevel is the level that tests run at which do not choose one.
var testLevel = LevelFull

// atEachLevel runs a test at every level that this machine has.
func atEachLevel(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for _, l := range levels() {
		t.Run(string(l), func(t *testing.T) {
			before := testLevel
			testLevel = l
			defer func() { testLevel = before }()
			needsConfinement(t)
			test(t)
		})
	}
}

// needsConfinement skips where this machine cannot run a sandbox at the level of
// the test. Where it has what the level is made of, it must.
func needsConfinement(t testing.TB) {
	t.Helper()
	err := tried(testLevel)
	if err == nil {
		return
	}
	missing := ingredient(testLevel)
	if missing == nil {
		t.Fatalf("confinement level %s should work here: %v", testLevel, err)
	}
	testclass.Unavailable(t, fmt.Sprintf("confinement level %s: %v", testLevel, missing))
}

// tried says why the level does not work here.
var tried = func() func(Level) error {
	known := map[Level]error{}
	return func(l Level) error {
		err, ok := known[l]
		if !ok {
			err = Try(context.Background(), Options{Init: []string{"sandbox.test", initArgument}, Level: l})
			known[l] = err
		}
		return err
	}
}()

// ingredient says what of a level this machine lacks, found in another way than
// the sandbox does.
func ingredient(l Level) error {
	if l == LevelLandlock {
		if landlockVersion() == 0 {
			return errors.New("no Landlock")
		}
		return nil
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("no namespaces: %w %s", err, bytes.TrimSpace(out))
	}
	if l == LevelLimits {
		return nil
	}
	g, err := cgroup.New(cgroup.DefaultRoot, cgroup.Limits{MemoryBytes: 64 << 20, Pids: 16, CPUs: 1})
	if err != nil {
		return err
	}
	return g.Remove()
}

func testJob(commands ...string) *job {
	j := &job{
		plan: plan{
			Split: os.Geteuid() == 0, MountPath: "/workspace",
			Env:       []string{"PATH=" + searchPath, "HOME=/tmp", "LANG=C.UTF-8"},
			DiskBytes: 16 << 20, Inodes: minInodes,
		},
		limits:  cgroup.Limits{MemoryBytes: 128 << 20, Pids: 64, CPUs: 1},
		timeout: 30 * time.Second,
	}
	for _, c := range commands {
		j.plan.Commands = append(j.plan.Commands, planCommand{Cmd: c, Dir: "/workspace"})
	}
	return j
}

func confineJob(t *testing.T, j *job) *outcome {
	t.Helper()
	needsConfinement(t)
	out, err := confine(t.Context(), j, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stdout of one command that must succeed.
func stdoutOf(t *testing.T, command string) string {
	t.Helper()
	out := confineJob(t, testJob(command))
	if len(out.runs) != 1 || out.runs[0].exitCode != 0 || out.stopped != stopNone {
		t.Fatalf("%s: %s", command, describe(out))
	}
	return strings.TrimSpace(out.runs[0].stdout.preview(maxPreviewBytes))
}

func describe(out *outcome) string {
	var b strings.Builder
	for _, r := range out.runs {
		b.WriteString(r.cmd + " => " + string(rune('0'+r.exitCode%10)) + " stdout: " + r.stdout.preview(maxPreviewBytes) + " stderr: " + r.stderr.preview(maxPreviewBytes) + "\n")
	}
	return b.String() + " stopped: " + string(out.stopped) + " limit: " + out.limit
}
