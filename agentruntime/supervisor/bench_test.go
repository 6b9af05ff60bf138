package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCall measures a call through a real process and back, checked on
// both sides, as its caller sees it, with so many callers at once.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("inflight=%d", callers), func(b *testing.B) {
			n := newNode(b, Config{})
			start(b, n, agentSpec("reference"))
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						begin := time.Now()
						if _, err := n.Call(context.Background(), helloCall()); err != nil {
							b.Error(err)
							return
						}
						took[i] = time.Since(begin)
					}
				})
			}
			wg.Wait()
			report(b, took)
		})
	}
}

// BenchmarkCallLarge is a call whose output has 64 KiB, one at a time.
func BenchmarkCallLarge(b *testing.B) {
	n := newNode(b, Config{})
	start(b, n, agentSpec("reference"))
	c := helloCall()
	c.Tool, c.Input = "large_output", []byte(`{"bytes":65536}`)
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := n.Call(context.Background(), c); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

// BenchmarkLaunch measures from Start to registered, of an agent that is a
// program of its own: what links the supervisor, as this one, starts slower.
func BenchmarkLaunch(b *testing.B) {
	spec := agentSpec("")
	spec.Command, spec.Env = []string{filepath.Join(b.TempDir(), "hello")}, nil
	spec.Tools = []string{"hello_world"}
	if out, err := exec.Command("go", "build", "-o", spec.Command[0], "./testdata/hello").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		n := newNode(b, Config{})
		b.StartTimer()
		begin := time.Now()
		start(b, n, spec)
		took = append(took, time.Since(begin))
		b.StopTimer()
		if err := n.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	if len(took) == 0 {
		return
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	b.ReportMetric(us(took[len(took)/2]), "p50-us")
	b.ReportMetric(us(took[len(took)*95/100]), "p95-us")
}

// BenchmarkIdleAgents reports what an idle agent's connection costs the node:
// resident memory, after a collection, for each of 24 agents.
func BenchmarkIdleAgents(b *testing.B) {
	const agents = 24
	for b.Loop() {
		n := newNode(b, Config{})
		before := residentKiB(b)
		for i := range agents {
			spec := agentSpec("reference")
			spec.ID = fmt.Sprintf("com.example.idle%d", i)
			start(b, n, spec)
		}
		b.ReportMetric(float64(residentKiB(b)-before)/agents, "KiB/agent")
	}
}

func residentKiB(b *testing.B) int64 {
	b.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib
}
