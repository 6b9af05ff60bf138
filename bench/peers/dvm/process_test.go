package dvm_test

import (
	"bytes"
	"io"
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
func launch(tb testing.TB, w world, cmd *exec.Cmd) (*process, string) {
	tb.Helper()
	line := &awaited{found: make(chan string, 1)}
	cmd.Stdout = line
	return begin(tb, w, cmd, line)
}

// begin starts cmd and returns once it has printed line; when the test ends it
// is ended, too. If it ends before, the test has failed, with what it wrote to
// standard error, and all that wait for anything in this world are let go.
func begin(tb testing.TB, w world, cmd *exec.Cmd, line *awaited) (*process, string) {
	tb.Helper()
	var errs bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	} else {
		cmd.Stderr = io.MultiWriter(&errs, cmd.Stderr)
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stopping, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := cmd.Wait()
		select {
		case <-stopping:
			if err == nil || w.ctx.Err() != nil {
				return
			}
		case <-w.ctx.Done(): // another has ended, and is why
			return
		default:
		}
		tb.Errorf("%s has ended: %v", cmd.Args, err)
		w.end()
	}()
	tb.Cleanup(func() {
		close(stopping)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if tb.Failed() {
			tb.Logf("%s:\n%s", cmd.Args, errs.String())
		}
	})
	select {
	case said := <-line.found:
		return &process{cmd.Process.Pid}, said
	case <-w.ctx.Done():
		tb.FailNow()
	case <-time.After(patience):
		tb.Fatalf("%s does not say that it is ready", cmd.Args)
	}
	return nil, ""
}

// awaited takes what a process prints and finds the first line that has a text in it.
type awaited struct {
	text  string
	rest  []byte // the line that has begun
	found chan string
	done  bool
}

func (a *awaited) Write(doc []byte) (int, error) {
	if a.done {
		return len(doc), nil
	}
	a.rest = append(a.rest, doc...)
	for {
		line, rest, ok := bytes.Cut(a.rest, []byte("\n"))
		if !ok {
			return len(doc), nil
		}
		a.rest = rest
		if bytes.Contains(line, []byte(a.text)) {
			a.done, a.rest = true, nil
			a.found <- strings.TrimSpace(string(line))
			return len(doc), nil
		}
	}
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
		tb.Fatal(err)
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
