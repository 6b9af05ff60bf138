package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

func TestCommandIdentity(t *testing.T) {
	got := stdoutOf(t, `id -u; id -g; id -G; hostname; pwd
		awk '/^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)/ { print $1 $2 }' /proc/self/status
		ls /proc | grep -c '^1$'; env | cut -d= -f1 | sort | tr '\n' ' '; ulimit -c`)
	want := `65534
65534
65534
sandbox
/workspace
CapInh:0000000000000000
CapPrm:0000000000000000
CapEff:0000000000000000
CapBnd:0000000000000000
CapAmb:0000000000000000
NoNewPrivs:1
0
HOME LANG PATH PWD 0`
	if got != want {
		t.Errorf("inside it looks like\n%s\nwant\n%s", got, want)
	}
}

func TestLoopbackOnlyWhereAsked(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		j := testJob("tail -n +3 /proc/net/dev | wc -l; cat /proc/net/if_inet6 | wc -l")
		j.plan.Loopback = loopback
		out := confineJob(t, j)
		want := map[bool]string{false: "1\n0\n", true: "1\n1\n"}[loopback]
		if got := out.runs[0].stdout.preview(100); got != want {
			t.Errorf("loopback %v: interfaces and addresses are\n%s", loopback, got)
		}
	}
}

func TestTimeoutKillsEverything(t *testing.T) { atEachLevel(t, timeoutKillsEverything) }

func timeoutKillsEverything(t *testing.T) {
	mark := marker()
	j := testJob("echo before; (setsid sleep " + mark + " &) ; trap '' TERM; sleep " + mark + "; echo after")
	j.timeout = 3 * time.Second
	out := confineJob(t, j)
	for len(out.runs) != 1 || out.runs[0].stdout.preview(100) == "" { // a busy machine, or an emulated one, takes longer to begin
		if j.timeout *= 2; j.timeout > 3*time.Minute {
			t.Fatalf("the job does not begin: %s", describe(out))
		}
		out = confineJob(t, j)
	}
	if out.stopped != stopTimeout || len(out.runs) != 1 || out.runs[0].exitCode != 137 {
		t.Fatalf("stopped %q: %s", out.stopped, describe(out))
	}
	if got := out.runs[0].stdout.preview(100); got != "before\n" {
		t.Errorf("output %q", got)
	}
	noneAlive(t, mark)
	noCgroupsLeft(t)
}

func TestCancelKillsEverything(t *testing.T) { atEachLevel(t, cancelKillsEverything) }

func cancelKillsEverything(t *testing.T) {
	needsConfinement(t)
	ctx, cancel := context.WithCancel(t.Context())
	opts := testOptions(t)
	opts.Stream = func(channel, text string) { cancel() } // it runs by now
	mark := marker()
	out, err := confine(ctx, testJob("echo up; sleep "+mark), opts)
	if err != nil || out.stopped != stopCancelled {
		t.Fatalf("%+v, %v", out, err)
	}
	noneAlive(t, mark)
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	passed chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.passed }

func (e expiring) Err() error {
	select {
	case <-e.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestDeadlineOfCallerIsTimeout(t *testing.T) {
	needsConfinement(t)
	ctx := expiring{t.Context(), make(chan struct{})}
	opts := testOptions(t)
	expire := sync.OnceFunc(func() { close(ctx.passed) })
	opts.Stream = func(string, string) { expire() } // it runs by now
	out, err := confine(ctx, testJob("echo up; sleep 600"), opts)
	if err != nil || out.stopped != stopTimeout {
		t.Fatalf("%+v, %v", out, err)
	}
}

func TestLeftoverProcessesEndWithTheirCommand(t *testing.T) {
	mark := marker()
	out := confineJob(t, testJob(
		"(setsid sh -c 'sleep 0.2; echo late >/workspace/late' >/dev/null 2>&1 &) ; (sleep "+mark+" &) ; echo started",
		"sleep 0.5; ls /workspace; ls /proc | grep -c '^[0-9]'"))
	if len(out.runs) != 2 {
		t.Fatal(describe(out))
	}
	// ls, grep and the shell itself, at most; the hidden process 1 is not there.
	if got := strings.TrimSpace(out.runs[1].stdout.preview(100)); got != "2" && got != "3" {
		t.Errorf("after the first command: %q", got)
	}
	noneAlive(t, mark)
}

func TestDeathOfTheAgentEndsTheSandbox(t *testing.T) {
	atEachLevel(t, deathOfTheAgent)
}

func deathOfTheAgent(t *testing.T) {
	opts, j := testOptions(t), testJob("echo up; sleep 600")
	j.plan.Level, j.plan.Tmp, j.plan.Artifacts = opts.Level, "/tmp", artifactMount
	b, err := newBounds(j, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer b.remove()
	p, err := startInit(opts.Init, j, b)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	if err := p.send(j); err != nil {
		t.Fatal(err)
	}
	for kind := byte(0); kind != frameStdout; {
		if kind, _, err = readFrame(p.report, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.plan.Close() // as the kernel does when the agent dies
	if _, _, err := readFrame(p.report, nil); err == nil {
		t.Error("the sandbox went on without its agent")
	}
}

func TestRefusesWhereItCannotConfine(t *testing.T) {
	empty := t.TempDir()
	halfway := t.TempDir()
	for _, dir := range []string{"memory", "pids"} {
		if err := os.MkdirAll(filepath.Join(halfway, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(halfway, dir, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	unified := t.TempDir()
	for _, file := range []string{"cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"} {
		if err := os.WriteFile(filepath.Join(unified, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, root := range map[string]string{"no cgroups": empty, "plain directories": halfway, "nothing delegated": unified} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(t)
			opts.CgroupRoot = root
			marker := filepath.Join(t.TempDir(), "ran")
			out, err := confine(t.Context(), testJob("touch "+marker), opts)
			var ce *ConfineError
			if out != nil || !errors.Is(err, ErrCannotConfine) || !errors.As(err, &ce) || len(ce.Missing) == 0 {
				t.Fatalf("got %v, %v", out, err)
			}
			if _, err := os.Stat(marker); err == nil {
				t.Error("a command ran")
			}
			t.Log(err)
		})
	}
}

// marker is a number of seconds that no other process sleeps.
func marker() string { return fmt.Sprintf("600.%d%06d", os.Getpid(), rand.IntN(1_000_000)) }

// noneAlive fails if a process of the host has the marker in its command line.
func noneAlive(t *testing.T, mark string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), mark) {
			t.Errorf("%s is left: %q", filepath.Dir(file), text)
		}
	}
}

func noCgroupsLeft(t *testing.T) {
	t.Helper()
	mine := fmt.Sprintf("-%d-", os.Getpid())
	_ = filepath.WalkDir(cgroup.DefaultRoot, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "lightwork-") && strings.Contains(d.Name(), mine) {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

// The system would be safe by its file permissions too; where those of the
// host are careless, the mounts still are not.
func TestMountFlags(t *testing.T) {
	got := stdoutOf(t, `awk '{ print $5, $6 }' /proc/self/mountinfo`)
	writable := map[string]bool{"/workspace": true, "/tmp": true, "/artifacts": true, "/dev/shm": true}
	for line := range strings.Lines(got) {
		at, flags, _ := strings.Cut(strings.TrimSpace(line), " ")
		list := strings.Split(flags, ",")
		if slices.Contains(list, "ro") == writable[at] || !slices.Contains(list, "nosuid") {
			t.Errorf("%s is mounted %s", at, flags)
		}
		if device := strings.HasPrefix(at, "/dev/") && !writable[at]; slices.Contains(list, "nodev") == device {
			t.Errorf("%s is mounted %s", at, flags)
		}
	}
	if !strings.Contains(got, "/usr ro,") {
		t.Errorf("mounts are\n%s", got)
	}
}
