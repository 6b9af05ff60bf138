package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	canaryText = "the canary lives\n"
	// canaryKey names shared memory that any user of the host may use.
	canarySize = 4096
)

// canaries are things of the host that no job may reach. File permissions
// guard none of them: if one is touched, the confinement has a hole.
type canaries struct {
	file    string
	ports   []net.Listener
	visits  atomic.Int32
	process *exec.Cmd
	exited  chan struct{}
	key     int
	segment int
	tunings map[string]string
	mounts  string
}

func plantCanaries(t *testing.T) *canaries {
	t.Helper()
	t.Setenv("AGENT_SECRET", "agent_secret")
	c := &canaries{file: filepath.Join(publicDir(t), "canary"), exited: make(chan struct{}), tunings: map[string]string{}}
	if err := os.WriteFile(c.file, []byte(canaryText), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.file, 0o666); err != nil {
		t.Fatal(err)
	}
	c.listen(t, "tcp", "127.0.0.1:0")
	c.listen(t, "unix", "@"+c.file)
	c.listen(t, "unix", c.file+".sock")
	c.startProcess(t)
	c.shareMemory(t)
	for _, name := range tunings() {
		c.tunings[name] = tuning(name)
	}
	c.mounts = tuning("/proc/self/mountinfo")
	return c
}

// publicDir is a directory that every user may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tunings are files through which a job could change the machine.
func tunings() []string {
	return []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
		"/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/panic", "/proc/sys/vm/overcommit_memory", "/proc/self/oom_score_adj",
	}
}

func tuning(name string) string {
	text, err := os.ReadFile(name)
	return fmt.Sprintf("%s %v", text, err)
}

func (c *canaries) listen(t *testing.T, network, address string) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	c.ports = append(c.ports, l)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.visits.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-closed })
}

func (c *canaries) startProcess(t *testing.T) {
	t.Helper()
	c.process = exec.Command("sleep", "3600")
	// Of the commands' own user, and with a process group of its own: what a
	// command may signal by the rules for users.
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		c.process.SysProcAttr.Credential = &syscall.Credential{Uid: hostCommandID, Gid: hostCommandID}
	}
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.process.Wait()
	}()
	t.Cleanup(func() {
		_ = c.process.Process.Kill()
		<-c.exited
	})
}

func (c *canaries) shareMemory(t *testing.T) {
	t.Helper()
	c.key = os.Getpid()<<8 | 0xca
	segment, err := unix.SysvShmGet(c.key, canarySize, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		t.Fatal(err)
	}
	c.segment = segment
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })
}

// environment tells programs where the canaries are.
func (c *canaries) environment() []string {
	return []string{
		"CANARY_FILE=" + c.file,
		fmt.Sprintf("CANARY_PORT=%d", c.ports[0].Addr().(*net.TCPAddr).Port),
		"CANARY_SOCKET=" + c.file,
		fmt.Sprintf("CANARY_PID=%d", c.process.Process.Pid),
		fmt.Sprintf("CANARY_KEY=%d", c.key),
	}
}

// check fails if anything was touched.
func (c *canaries) check(t *testing.T) {
	t.Helper()
	if text, err := os.ReadFile(c.file); err != nil || string(text) != canaryText {
		t.Errorf("the canary's file is %q, %v", text, err)
	}
	if info, err := os.Lstat(c.file); err != nil || info.Mode() != 0o666 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the canary's file is %v, %v", info, err)
	}
	if n := c.visits.Load(); n != 0 {
		t.Errorf("%d connections to the host", n)
	}
	select {
	case <-c.exited:
		t.Errorf("the host's process ended: %v", c.process.ProcessState)
	default:
	}
	var shm unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(c.segment, unix.IPC_STAT, &shm); err != nil || shm.Atime != 0 {
		t.Errorf("the host's shared memory was used: %v %v", shm.Atime, err)
	}
	for name, before := range c.tunings {
		if now := tuning(name); now != before {
			t.Errorf("%s was %q, is %q", name, before, now)
		}
	}
	if now := tuning("/proc/self/mountinfo"); now != c.mounts {
		t.Errorf("mounts of the host changed to\n%s", now)
	}
}

// The canaries themselves: each can be reached from outside, so that a job
// that does not reach them was kept from it.
func TestCanariesNoticeVisits(t *testing.T) {
	needsConfinement(t)
	c := plantCanaries(t)
	c.check(t)
	for i, l := range c.ports {
		conn, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		// The other end hangs up once it has counted.
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
		if n := c.visits.Load(); int(n) != i+1 {
			t.Errorf("%d visits counted after %s", n, l.Addr())
		}
	}
	if err := syscall.Kill(c.process.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.exited
	if memory, err := unix.SysvShmAttach(c.segment, 0, unix.SHM_RDONLY); err != nil {
		t.Error(err)
	} else {
		_ = unix.SysvShmDetach(memory)
	}
}
