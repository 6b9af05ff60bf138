package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

// freedWithin is how long after its end a job may hold anything. The promise is
// one second; a busy machine may take three times as long.
const freedWithin = 3 * time.Second

// bombs print "armed" and then take all they can get, for ever. Where a limit
// ends one of them early, that is an end too.
func bombs() map[string]string {
	python := func(body string) string { return "python3 -c '" + body + "'" }
	return map[string]string{
		"fork":             `echo armed; b() { b | b & }; b; while :; do :; done`,
		"fork in sessions": `echo armed; f() { setsid sh -c "sleep $CANARY_MARK & sleep $CANARY_MARK" & }; while :; do f; done`,
		"threads":          python("import threading, time\nprint(\"armed\", flush=True)\nwhile True:\n  try: threading.Thread(target=time.sleep, args=(999,)).start()\n  except RuntimeError: pass"),
		"memory":           python("print(\"armed\", flush=True)\na = []\nwhile True: a.append(bytearray(1 << 20))"),
		"memory of many":   `echo armed; for i in 1 2 3 4 5 6 7 8 9 10; do awk 'BEGIN { s = "x"; while (length(s) < 30e6) s = s s; while (1); }' & done; wait; while :; do :; done`,
		"shared memory":    `echo armed; while :; do head -c 8M /dev/zero >/dev/shm/$((i=i+1)); done`,
		"segments":         python("import ctypes\nl = ctypes.CDLL(None)\nl.shmat.restype = ctypes.c_void_p\nprint(\"armed\", flush=True)\nwhile True:\n  a = l.shmat(l.shmget(0, 1 << 20, 0o1600), None, 0)\n  if a != 2**64 - 1: ctypes.memset(a, 1, 1 << 20)"),
		"memory files":     python("import os\nprint(\"armed\", flush=True)\nk = []\nwhile True:\n  k.append(os.memfd_create(\"x\")); os.write(k[-1], bytes(1 << 20))"),
		"pipes":            python("import os, fcntl\nprint(\"armed\", flush=True)\nk = []\nwhile True:\n  try: k.append(os.pipe()); os.set_blocking(k[-1][1], False); os.write(k[-1][1], bytes(65536))\n  except OSError: pass"),
		"disk":             `echo armed; while :; do for d in /workspace /tmp /artifacts; do cat /dev/zero >$d/$((i=i+1)); done; done`,
		"disk and links":   `echo armed; while :; do i=$((i+1)); mkdir -p /tmp/$i/a/b/c/d; ln -s / /tmp/$i/l; echo x >/tmp/$i/f; done`,
		"holes":            `echo armed; while :; do truncate -s 1T /tmp/$((i=i+1)); done`,
		"deep directories": python("import os\nprint(\"armed\", flush=True)\nwhile True:\n  try: os.mkdir(\"d\" * 255); os.chdir(\"d\" * 255)\n  except OSError: pass"),
		"processor":        `echo armed; while :; do :; done & while :; do :; done`,
		"output":           `echo armed; yes`,
		"errors":           `echo armed; while :; do echo e >&2; done`,
		"signals":          `echo armed; trap '' TERM HUP INT QUIT; while :; do kill -TERM 0; done`,
	}
}

// A bomb ends with its job, whatever ended that, and everything it held is free.
func TestBombsEndWithTheirJob(t *testing.T) {
	needsConfinement(t)
	for name, bomb := range bombs() {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(bomb, "python3") {
				require(t, "python3")
			}
			shared, mounts, mark := sharedMemoryOfHost(t), tuning("/proc/self/mountinfo"), marker()
			j := testJob(bomb + " # " + mark)
			j.plan.Env = append(j.plan.Env, "CANARY_MARK="+mark)
			j.plan.DiskBytes = 192 << 20
			j.limits = cgroup.Limits{MemoryBytes: 256 << 20, Pids: 64, CPUs: 1}
			out, end := explode(t, j)
			if late := time.Since(end); late > freedWithin {
				t.Errorf("over %v after its end", late)
			}
			if said := out.runs[0].stdout.preview(6); said != "armed\n" {
				t.Errorf("did not go off: %s", describe(out))
			}
			if out.runs[0].exitCode == 0 {
				t.Errorf("ended by itself: %s", describe(out))
			}
			noneAlive(t, mark)
			noCgroupsLeft(t)
			if now := tuning("/proc/self/mountinfo"); now != mounts {
				t.Errorf("mounts are now\n%s", now)
			}
			// The kernel takes segments away a moment after their namespace. Half
			// of the bomb leaves room for what others do meanwhile.
			for sharedMemoryOfHost(t) > shared+j.plan.DiskBytes/2 {
				if time.Since(end) > freedWithin {
					t.Fatalf("files in memory were %d MiB, are %d", shared>>20, sharedMemoryOfHost(t)>>20)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// explode gives an armed bomb some time and cancels its job. It returns when
// that was, or when the bomb ended before.
func explode(t *testing.T, j *job) (out *outcome, end time.Time) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opts := testOptions(t)
	var fuse *time.Timer
	cancelled := make(chan time.Time, 1)
	opts.Stream = func(string, string) {
		if fuse == nil {
			fuse = time.AfterFunc(400*time.Millisecond, func() { cancelled <- time.Now(); cancel() })
		}
	}
	out, err := confine(ctx, j, opts)
	if err != nil {
		t.Fatal(err)
	}
	if fuse == nil || fuse.Stop() {
		return out, time.Now()
	}
	return out, <-cancelled
}

// sharedMemoryOfHost is how much of the machine's memory files take, in bytes.
func sharedMemoryOfHost(t *testing.T) (kib int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Shmem:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib << 10
}

// Archives that become much more than they are, as the sandbox sees them.
func TestArchiveBombsAreRefused(t *testing.T) {
	needsConfinement(t)
	many := make([]entry, maxSourceEntries+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprint("f", i), kind: tar.TypeDir}
	}
	names := make([]entry, maxSourceEntries)
	for i := range names {
		names[i] = entry{name: fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", 1000))}
	}
	for name, archive := range map[string][]byte{
		"zeros":         tarGz(t, entry{name: "zeros", body: strings.Repeat("\x00", 32<<20)}),
		"many zeros":    tarGz(t, entry{name: "a", body: strings.Repeat("\x00", 9<<20)}, entry{name: "b", body: strings.Repeat("\x00", 9<<20)}),
		"many entries":  tarGz(t, many...),
		"deep names":    tarGz(t, names...),
		"long name":     tarGz(t, entry{name: strings.Repeat("n", 1<<19)}),
		"long link":     tarGz(t, entry{name: "l", kind: tar.TypeSymlink, link: strings.Repeat("n/", 1<<18)}),
		"long elements": tarGz(t, entry{name: strings.Repeat("n", 300)}),
	} {
		t.Run(name, func(t *testing.T) {
			j := testJob("echo ran")
			j.source, j.plan.Source = archive, true
			j.timeout = time.Minute
			out, err := confine(t.Context(), j, testOptions(t))
			var re *RequestError
			if !errors.As(err, &re) || re.Field != "repo.source" || out != nil || len(err.Error()) > 4096 {
				t.Errorf("got %v, %.300v", out, err)
			}
			noCgroupsLeft(t)
		})
	}
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
	if n := len(out.runs[0].stdout.preview(maxPreviewBytes)); n != maxPreviewBytes {
		t.Errorf("preview has %d bytes", n)
	}
}
