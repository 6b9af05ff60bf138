package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestCommandsAreConfined tries one way out after the other. Each command
// prints "escaped" if it got through.
func TestCommandsAreConfined(t *testing.T) {
	requirements.Covers(t, "AP-8.2.2")
	needsConfinement(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("host"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]string{
		"write to /usr":             "touch /usr/bin/x && echo escaped",
		"write to the root":         "touch /x && echo escaped",
		"write to /etc":             "echo x >/etc/passwd && echo escaped",
		"write to a device dir":     "touch /dev/x && echo escaped",
		"replace a tool":            "rm -f /usr/bin/env && echo escaped",
		"read /etc/shadow":          "cat /etc/shadow && echo escaped",
		"list /root":                "ls /root && echo escaped",
		"read a host file":          "cat " + secret + " && echo escaped",
		"read /etc/machine-id":      "cat /etc/machine-id && echo escaped",
		"see /sys":                  "ls /sys && echo escaped",
		"mount":                     "mount -t tmpfs none /tmp && echo escaped",
		"remount /usr":              "mount -o remount,rw /usr && echo escaped",
		"new user namespace mounts": "unshare -Urm sh -c 'mount -t tmpfs none /tmp' && echo escaped",
		"become root by su":         "su root -c true && echo escaped",
		"make a device":             "mknod /tmp/sda b 8 0 && echo escaped",
		"change the host name":      "hostname other && echo escaped",
		"change a sysctl":           "echo 1 >/proc/sys/kernel/hostname && echo escaped",
		"chroot":                    "chroot / true && echo escaped",
		"signal a host process":     fmt.Sprintf("kill -0 %d && echo escaped", os.Getpid()),
		"signal process 1":          "kill -9 1; kill -TERM 1 && echo escaped",
		"look into process 1":       "ls /proc/1/root/ && echo escaped",
		"trace process 1":           "cat /proc/1/environ /proc/1/maps && echo escaped",
		"use an inherited file":     "for f in 3 4 5 6 7 8 9; do eval \"cat <&$f\" && echo escaped; done",
		"raise a limit":             "ulimit -c unlimited && echo escaped",
		"leave through /proc/self":  "ls /proc/self/root/root && echo escaped",
		"keep a setuid bit":         "cp /usr/bin/id /tmp/id && chmod u+s /tmp/id && grep -q nosuid /proc/self/mounts || echo escaped",
	} {
		t.Run(name, func(t *testing.T) {
			out := confineJob(t, testJob("( "+command+" ); exit 0"))
			if got := out.runs[0].stdout.preview(MaxPreviewBytes); strings.Contains(got, "escaped") {
				t.Errorf("%s\n%s", got, out.runs[0].stderr.preview(MaxPreviewBytes))
			}
			if out.runs[0].exitCode != 0 {
				t.Errorf("the shell itself did not run: %s", describe(out))
			}
		})
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "host" {
		t.Error("the host's file changed")
	}
}

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

// The listeners are on the host's 127.0.0.1 and on its abstract unix sockets,
// which no file permission guards.
func TestHostNetworkIsOutOfReach(t *testing.T) {
	needsConfinement(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	port := tcp.Addr().(*net.TCPAddr).Port
	connect := fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d' && echo connected || echo refused", port)
	for _, loopback := range []bool{false, true} {
		j := testJob(connect)
		j.plan.Loopback = loopback
		out := confineJob(t, j)
		if got := strings.TrimSpace(out.runs[0].stdout.preview(100)); got != "refused" {
			t.Errorf("loopback %v: the host's listener is %s", loopback, got)
		}
	}
	// The same command does connect outside, so the test can fail.
	if got, err := exec.Command("sh", "-c", connect).Output(); err != nil || strings.TrimSpace(string(got)) != "connected" {
		t.Fatalf("on the host: %s %v", got, err)
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

func TestForkBombIsBounded(t *testing.T) {
	mark := marker()
	j := testJob("b() { b | b & }; b; sleep 60 # " + mark)
	j.timeout = 2 * time.Second
	out := confineJob(t, j)
	// Sleep may fail to start; either way the job is over and so is the bomb.
	if out.stopped != stopTimeout && out.runs[0].exitCode == 0 {
		t.Errorf("the bomb had no effect: %s", describe(out))
	}
	noneAlive(t, mark)
}

func TestMemoryIsBounded(t *testing.T) {
	j := testJob(`awk 'BEGIN { s = "x"; while (1) s = s s }'`)
	j.limits.MemoryBytes = 48 << 20
	out := confineJob(t, j)
	if out.oomKills == 0 || len(out.runs) != 1 || out.runs[0].exitCode == 0 {
		t.Errorf("a hog lived on: %d kills, %s", out.oomKills, describe(out))
	}
}

// Many small processes instead of one large one.
func TestMemoryIsBoundedInSum(t *testing.T) {
	j := testJob(`for i in 1 2 3 4 5 6 7 8; do awk 'BEGIN { s = "x"; while (length(s) < 16e6) s = s s; system("sleep 1") }' & done; wait`)
	j.limits.MemoryBytes = 48 << 20
	out := confineJob(t, j)
	if out.oomKills == 0 {
		t.Errorf("eight processes got more than the limit: %s", describe(out))
	}
}

func TestDiskIsBounded(t *testing.T) {
	for _, at := range []string{"/workspace", "/tmp", "/artifacts", "/dev/shm"} {
		j := testJob("head -c 64M /dev/zero >" + at + "/big; wc -c <" + at + "/big; rm " + at + "/big")
		j.limits.MemoryBytes = 256 << 20
		out := confineJob(t, j)
		if got := strings.TrimSpace(out.runs[0].stdout.preview(100)); got != fmt.Sprint(j.plan.DiskBytes) {
			t.Errorf("%s holds %s bytes: %s", at, got, describe(out))
		}
	}
}

func TestDiskPartsShareOneBudget(t *testing.T) {
	j := testJob("head -c 12M /dev/zero >/workspace/a; head -c 12M /dev/zero >/tmp/b; cat /workspace/a /tmp/b | wc -c")
	out := confineJob(t, j)
	if got := strings.TrimSpace(out.runs[0].stdout.preview(100)); got != fmt.Sprint(j.plan.DiskBytes) {
		t.Errorf("/workspace and /tmp hold %s bytes: %s", got, describe(out))
	}
}

func TestInodesAreBounded(t *testing.T) {
	j := testJob("i=0; while true >f$i && [ $i -lt 20000 ]; do i=$((i+1)); done 2>/dev/null; echo $i")
	j.plan.Inodes = 500
	out := confineJob(t, j)
	got := out.runs[0].stdout.preview(100)
	if n := len(got); n == 0 || n > 4 {
		t.Errorf("could make %s files", got)
	}
}

func TestOutputIsBounded(t *testing.T) {
	out := confineJob(t, testJob("yes", "echo not reached"))
	if out.stopped != stopLimit || !strings.HasPrefix(out.limit, "output_limit") || len(out.runs) != 1 {
		t.Errorf("endless output ended as %q, %q with %d runs", out.stopped, out.limit, len(out.runs))
	}
	if n := len(out.runs[0].stdout.preview(MaxPreviewBytes)); n != MaxPreviewBytes {
		t.Errorf("preview has %d bytes", n)
	}
}

func TestTimeoutKillsEverything(t *testing.T) {
	mark := marker()
	j := testJob("echo before; (setsid sleep " + mark + " &) ; trap '' TERM; sleep " + mark + "; echo after")
	j.timeout = 300 * time.Millisecond
	out := confineJob(t, j)
	if out.stopped != stopTimeout || out.runs[0].exitCode != 137 {
		t.Errorf("stopped %q, exit %d", out.stopped, out.runs[0].exitCode)
	}
	if got := out.runs[0].stdout.preview(100); got != "before\n" {
		t.Errorf("output %q", got)
	}
	noneAlive(t, mark)
	noCgroupsLeft(t)
}

func TestCancelKillsEverything(t *testing.T) {
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

func TestDeadlineOfCallerIsTimeout(t *testing.T) {
	needsConfinement(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	out, err := confine(ctx, testJob("sleep 600"), testOptions(t))
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
	needsConfinement(t)
	p, err := startInit(testOptions(t).Init, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	j := testJob("echo up; sleep 600")
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
