package sandbox

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/seccomp"
	"github.com/lightwork-market/lightwork/internal/testclass"
)

// verdict runs the filter over one call. The interpreter reads words with the
// high byte first, so that is how they are written; their places are the
// kernel's.
func verdict(t *testing.T, vm *bpf.VM, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, seccomp.OffsetArgs+6*8)
	binary.BigEndian.PutUint32(data[seccomp.OffsetNumber:], number)
	binary.BigEndian.PutUint32(data[seccomp.OffsetArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[seccomp.OffsetArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[seccomp.OffsetArgs+8*i+4:], uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func filterMachine(t *testing.T) *bpf.VM {
	t.Helper()
	prog, err := buildFilter(LevelFull, keepers{})
	if err != nil {
		testclass.Unavailable(t, err.Error())
	}
	var ins []bpf.Instruction
	for _, f := range prog {
		ins = append(ins, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}.Disassemble())
	}
	vm, err := bpf.NewVM(ins)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestFilterDecidesByArguments(t *testing.T) {
	vm := filterMachine(t)
	const (
		high  = 1 << 32 // the kernel does not look there, so neither may the filter
		allow = unix.SECCOMP_RET_ALLOW
		eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		proto = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
		noaf  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	)
	for _, tt := range []struct {
		name   string
		number uint32
		args   []uint64
		want   uint32
	}{
		{"read", unix.SYS_READ, nil, allow},
		{"thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, eperm},
		{"user namespace with a stray bit", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | high}, eperm},
		{"net namespace among flags", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_NEWNET}, eperm},
		{"mount namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, eperm},
		{"clone3", unix.SYS_CLONE3, nil, nosys},
		{"unshare", unix.SYS_UNSHARE, []uint64{0}, eperm},
		{"terminal size", unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"ioctl with a negative request", unix.SYS_IOCTL, []uint64{0, 0xffffffff80045430}, allow},
		{"TIOCSTI", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm},
		{"TIOCSTI with a stray bit", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | high}, eperm},
		{"TIOCSTI, negative", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | 0xffffffff00000000}, eperm},
		{"TIOCLINUX", unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, eperm},
		{"TIOCLINUX with a stray bit", unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX | high}, eperm},
		{"which personality", unix.SYS_PERSONALITY, []uint64{0xffffffff}, allow},
		{"which personality, wider", unix.SYS_PERSONALITY, []uint64{^uint64(0)}, allow},
		{"readable means executable", unix.SYS_PERSONALITY, []uint64{0x0400000}, eperm},
		{"page zero", unix.SYS_PERSONALITY, []uint64{0x0100000}, eperm},
		{"own limits", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE}, allow},
		{"limits of process 1", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE}, eperm},
		{"limits of another, negative", unix.SYS_PRLIMIT64, []uint64{^uint64(0)}, eperm},
		{"unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{"tcp 6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, 0}, allow},
		{"tcp with flags", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}, allow},
		{"udp", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.IPPROTO_UDP}, allow},
		{"ping", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{"ping 6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, allow},
		{"raw", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, proto},
		{"sctp by protocol", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, proto},
		{"sctp by type", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_SEQPACKET, 0}, proto},
		{"dccp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DCCP, 0}, proto},
		{"dccp with stray bits", unix.SYS_SOCKET, []uint64{unix.AF_INET | high, unix.SOCK_DCCP | high, high}, proto},
		{"multipath tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, proto},
		{"interfaces", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"netfilter", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, noaf},
		{"audit", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, noaf},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, noaf},
		{"vsock with a stray bit", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK | high, unix.SOCK_STREAM, 0}, noaf},
		{"crypto", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, noaf},
		{"packets", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, noaf},
		{"pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, allow},
		{"other pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC}, noaf},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, nosys},
		{"userfaultfd", unix.SYS_USERFAULTFD, nil, nosys},
		{"new mounts", unix.SYS_FSOPEN, nil, nosys},
		{"trees of mounts", unix.SYS_OPEN_TREE, nil, nosys},
		{"mount", unix.SYS_MOUNT, nil, eperm},
		{"ptrace", unix.SYS_PTRACE, nil, eperm},
		{"bpf", unix.SYS_BPF, nil, eperm},
		{"perf", unix.SYS_PERF_EVENT_OPEN, nil, eperm},
		{"keys", unix.SYS_KEYCTL, nil, eperm},
		{"a call of the future", 9999, nil, nosys},
		{"x32 read", unix.SYS_READ | seccomp.X32Bit, nil, nosys},
		{"x32 ptrace", 521 | seccomp.X32Bit, nil, nosys},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := verdict(t, vm, seccomp.Arch, tt.number, tt.args...); got != tt.want {
				t.Errorf("verdict %#x, want %#x", got, tt.want)
			}
		})
	}
	// 11 is execve of the 32-bit entrance, and something harmless in ours.
	for _, number := range []uint32{0, 11, 26} {
		if got := verdict(t, vm, unix.AUDIT_ARCH_I386, number); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("32-bit call %d: verdict %#x", number, got)
		}
	}
}

// A call that two lists name would be decided by their order.
func TestCallsAreListedOnce(t *testing.T) {
	seen := map[uint32]bool{}
	for _, rule := range argumentRules() {
		seen[rule.number] = true
	}
	for _, list := range [][]uint32{commonCalls(), archCalls(), privilegedCalls()} {
		for _, number := range list {
			if seen[number] {
				t.Errorf("call %d is listed twice", number)
			}
			seen[number] = true
		}
	}
}

// TestToolsWorkUnderTheFilter runs what buyers run. A tool that this machine
// does not have, or has outside of the system's directories, is left out.
func TestToolsWorkUnderTheFilter(t *testing.T) {
	needsConfinement(t)
	for tool, command := range map[string]string{
		"sh": `a=$(printf 'x\ny\n' | sort -r | head -1); [ "$a" = y ] && mkfifo p && (echo hi >p &) && read b <p && echo "$b"; sleep 0.01; date >/dev/null; find / -xdev -maxdepth 1 >/dev/null; tar cf - . | tar tf - >/dev/null`,
		"python3": `python3 -c '
import threading, subprocess, multiprocessing.dummy as d, tempfile, socket, os, asyncio, mmap, signal, time
r = []
t = [threading.Thread(target=lambda: r.append(1)) for _ in range(4)]
[x.start() for x in t]; [x.join() for x in t]
assert subprocess.run(["true"]).returncode == 0
assert d.Pool(2).map(abs, [-1, -2]) == [1, 2]
with tempfile.NamedTemporaryFile() as f: f.write(b"x"); f.flush(); mmap.mmap(f.fileno(), 1).close()
a, b = socket.socketpair(); a.send(b"x"); b.recv(1)
os.sched_getaffinity(0); os.getloadavg; os.statvfs("/tmp")
asyncio.run(asyncio.sleep(0)); os.fork() or os._exit(0); os.wait()
'`,
		"node": `node -e '
const w = require("worker_threads"), c = require("child_process"), fs = require("fs");
fs.writeFileSync("/tmp/x", "1"); fs.promises.readFile("/tmp/x");
if (c.execFileSync("echo", ["hi"]).toString() !== "hi\n") process.exit(1);
new w.Worker("1", {eval: true}).on("exit", (n) => process.exit(n));
'`,
		"git":  `git init -q r && cd r && git config user.name n && git config user.email e@e && echo x >f && git add f && git commit -qm m && git clone -q . ../s && git -C ../s log --oneline >/dev/null && git gc -q`,
		"gcc":  `printf '#include <stdio.h>\n#include <pthread.h>\nvoid*f(void*p){return p;}int main(){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);puts("ok");}' >a.c && gcc -O1 -pthread -o a a.c && ./a`,
		"make": `printf 'all: a b\na b:\n\ttouch $@\n' >Makefile && make -s -j4 && ls a b`,
		"perl": `perl -e 'my $x = qx(echo hi); die unless $x eq "hi\n"; pipe(R, W); if (!fork) { print W "x"; exit } wait; close W; die unless <R> eq "x"'`,
		"go":   `printf 'package main\nfunc main() { c := make(chan int); go func() { c <- 1 }(); println(<-c) }' >a.go && GOCACHE=/tmp/c CGO_ENABLED=0 GO111MODULE=off go run a.go`,
	} {
		t.Run(tool, func(t *testing.T) {
			require(t, tool)
			j := testJob("set -e; " + command)
			j.plan.Loopback = true
			j.plan.DiskBytes, j.plan.Inodes = 512<<20, 32<<10
			j.limits = cgroup.Limits{MemoryBytes: 1536 << 20, Pids: 256, CPUs: 2}
			j.timeout = 4 * time.Minute
			out := confineJob(t, j)
			if len(out.runs) != 1 || out.runs[0].exitCode != 0 {
				t.Error(describe(out))
			}
		})
	}
}

// require ends a test that needs a tool which commands in a sandbox do not find.
func require(t *testing.T, tool string) {
	t.Helper()
	if !installed(tool) {
		testclass.NotInstalled(t, tool)
	}
}

// installed says whether commands in a sandbox find the tool.
func installed(tool string) bool {
	for dir := range strings.SplitSeq(searchPath, ":") {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, tool)); err == nil && visible(real) {
			if _, err := os.Stat(real); err == nil {
				return true
			}
		}
	}
	return false
}
