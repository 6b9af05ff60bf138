// Package peers_test measures the agent runtime against other ways to call a
// child process: each starts a small program
// of its own, below echoes, which echoes a JSON document.
package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	// A guard of the supervisor is this program, too.
	_ "github.com/lightwork-market/lightwork/agentruntime/guard"
)

// echo sends a document to the child and returns what comes back.
type echo func(ctx context.Context, doc json.RawMessage) (json.RawMessage, error)

// peer is one way to call a child process: start launches the child and returns
// when it can be called.
type peer struct {
	name  string
	start func(tb testing.TB) (call echo, stop func())
}

var peers = []peer{
	{"lightwork", startLightwork},
	{"ttrpc", startTTRPC},
	{"go-plugin", startPlugin},
	{"mcp", startMCP},
}

// programs is where what the tests build is kept for their time.
var programs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lw")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	return m.Run()
}

// child is a peer's program, which links what that peer needs and no more.
func child(tb testing.TB, name string) string { return built(tb, name, ".", "./echoes/"+name) }

// built makes a program of the module at dir, once, and returns its path.
func built(tb testing.TB, name, dir string, args ...string) string {
	tb.Helper()
	path := filepath.Join(programs, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", append([]string{"build", "-o", path}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	return path
}

// payloads are what is echoed.
var payloads = []struct {
	name string
	doc  json.RawMessage
}{
	{"small", json.RawMessage(`{"text":"hello"}`)},
	{"64KiB", json.RawMessage(`{"text":"` + strings.Repeat("x", 64<<10) + `"}`)},
}

// What is measured works, and does the same.
func TestEcho(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			call, stop := p.start(t)
			defer stop()
			for _, load := range payloads {
				got, err := call(t.Context(), load.doc)
				if err != nil || !bytes.Equal(got, load.doc) {
					t.Errorf("%s: %.100s, %v", load.name, got, err)
				}
			}
		})
	}
}

// BenchmarkCall measures one call after the other, as the caller sees it.
func BenchmarkCall(b *testing.B) {
	for _, p := range peers {
		for _, load := range payloads {
			b.Run(p.name+"/"+load.name, func(b *testing.B) {
				call, stop := p.start(b)
				defer stop()
				var took []time.Duration
				for b.Loop() {
					begin := time.Now()
					if _, err := call(b.Context(), load.doc); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begin))
				}
				report(b, took)
			})
		}
	}
}

// BenchmarkStart measures from the launch of the child until it can be called,
// and cpu-us, the processor time of all that was launched, which hardly depends
// on what else runs. Beside the peers' small programs it has an agent that is
// the node's own: that program links all of the node.
func BenchmarkStart(b *testing.B) {
	for _, p := range append([]peer{{"lightwork-program", startProgram}}, peers...) {
		b.Run(p.name, func(b *testing.B) {
			_, stop := p.start(b) // builds the program
			stop()
			var took, used []time.Duration
			for b.Loop() {
				before, begin := childrenTime(b), time.Now()
				_, stop := p.start(b)
				took = append(took, time.Since(begin))
				b.StopTimer()
				stop()
				used = append(used, childrenTime(b)-before)
				b.StartTimer()
			}
			report(b, took)
			slices.Sort(used)
			b.ReportMetric(float64(used[len(used)/2].Microseconds()), "cpu-us")
		})
	}
}

// childrenTime is the processor time of all processes that have been waited for.
func childrenTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	b.ReportMetric(us(took[len(took)/2]), "p50-us")
	b.ReportMetric(us(took[len(took)*95/100]), "p95-us")
}
