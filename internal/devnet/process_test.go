package devnet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// parentEnv makes the test binary play the program that starts a process and is
// then killed: its value is where the process logs to.
const parentEnv = "DEVNET_TEST_PARENT_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentEnv); log != "" {
		p, err := startProcess("/bin/sleep", log, "1000")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.pid)
		<-p.done // for ever
	}
	goleak.VerifyTestMain(m)
}

// alive reports whether pid runs. A zombie that nobody waits for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := poll(ctx, fmt.Sprintf("end of process %d", pid), func(context.Context) (bool, error) { return !alive(pid), nil })
	if err != nil {
		t.Fatal(err)
	}
}

// script runs a shell script until it has printed its first line.
func script(t *testing.T, body string) (p *process, line string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "output.log")
	p, err := startProcess("/bin/sh", log, "-c", body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	err = poll(t.Context(), "output", func(ctx context.Context) (bool, error) {
		out, err := os.ReadFile(log)
		first, _, ok := strings.Cut(string(out), "\n")
		line = first
		return ok, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, line
}

func TestStopIsGentle(t *testing.T) {
	p, _ := script(t, `trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	if err := p.exited(); err != nil {
		t.Fatalf("running, and yet %v", err)
	}
	p.stop()
	if err := p.exited(); !errors.Is(err, ErrStopped) || !strings.HasSuffix(err.Error(), "goodbye") {
		t.Errorf("%v; want ErrStopped with the end of the log", err)
	}
	p.stop() // twice is fine
	p.kill()
}

// What a process started dies with it.
func TestKillEndsTheGroup(t *testing.T) {
	p, line := script(t, `sleep 1000 & echo $!; wait`)
	child, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if !alive(child) || !alive(p.pid) {
		t.Fatal("not running")
	}
	p.kill()
	awaitGone(t, p.pid)
	awaitGone(t, child)
}

// A process dies with the program that started it, whatever ends that.
func TestProcessDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	child, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, convErr); err != nil {
		_ = parent.Process.Kill()
		t.Fatal(err)
	}
	if !alive(child) {
		t.Error("the process does not run")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	awaitGone(t, child)
}

func TestStartProcessFails(t *testing.T) {
	if _, err := startProcess("/nonexistent/lnd", filepath.Join(t.TempDir(), "log")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

// TestPorts: each is given once, none is another's, and none is one that an
// outgoing connection may have.
func TestPorts(t *testing.T) {
	p := ports{next: firstPort}
	var first []string
	var taken net.Listener
	for taken == nil {
		var err error
		if first, err = p.take(1); err != nil {
			t.Fatal(err)
		}
		// Another program may be quicker, but not at every port.
		taken, _ = net.Listen("tcp", first[0])
	}
	defer taken.Close()
	p.next = ephemeralPorts() - 1 // the last one, then from the beginning
	addresses, err := p.take(5)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{first[0]: true}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		number, err2 := strconv.Atoi(port)
		if err != nil || err2 != nil || host != "127.0.0.1" || number < firstPort || number >= ephemeralPorts() || seen[address] {
			t.Errorf("%s among %v", address, addresses)
		}
		seen[address] = true
	}
	if _, err := (&ports{next: firstPort}).take(1 << 16); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("more than there are: %v", err)
	}
}
