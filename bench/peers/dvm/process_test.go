package dvm_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is when a run gives up; nothing depends on how fast a peer is.
const patience = 2 * time.Minute

// process is a program that runs until the test ends.
type process struct {
	pid int
}

// launch starts cmd and returns once it has printed a line, which it returns.
func launch(tb testing.TB, cmd *exec.Cmd) (*process, string) {
	tb.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	p := begin(tb, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("%s says nothing: %v", cmd.Args, err)
	}
	return p, strings.TrimSpace(line)
}

// begin starts cmd; when the test ends it is ended, too. What it writes to
// standard error is shown if the test fails.
func begin(tb testing.TB, cmd *exec.Cmd) *process {
	tb.Helper()
	var errs bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			tb.Errorf("%s: %v", cmd.Args, err)
		}
		if tb.Failed() {
			tb.Logf("%s:\n%s", cmd.Args, errs.String())
		}
	})
	return &process{cmd.Process.Pid}
}

// self is the command line of a child of this program.
func self(tb testing.TB, name, arg string) []string {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{program, childArgument, name, arg}
}

// processor is the processor time that the process, its descendants and those
// of its children that have ended took.
func (p *process) processor(tb testing.TB) time.Duration {
	tb.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Skip(err)
	}
	parents, ticks := map[int]int{}, map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		doc, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(doc[bytes.LastIndexByte(doc, ')'):]), " ")
		fields := strings.Fields(rest) // proc(5), from "state" on
		parents[pid], _ = strconv.Atoi(fields[1])
		for _, f := range fields[11:15] { // utime, stime, cutime, cstime
			n, _ := strconv.Atoi(f)
			ticks[pid] += n
		}
	}
	sum := 0
	for pid, n := range ticks {
		for at := pid; at != 0; at = parents[at] {
			if at == p.pid {
				sum += n
				break
			}
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100
	return time.Duration(sum) * tick
}
