package sandbox

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

// BenchmarkSandbox is what a job costs before and after its commands, alone
// and beside a job that takes all it can get.
func BenchmarkSandbox(b *testing.B) {
	b.Run("alone", runJobs)
	b.Run("beside a bomb", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		armed, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			opts := testOptions(b)
			arm := sync.OnceFunc(func() { close(armed) })
			opts.Stream = func(string, string) { arm() }
			j := testJob("echo armed; while :; do :; done & while :; do head -c 8M /dev/zero >/tmp/$((i=i+1)) 2>/dev/null; done")
			j.limits, j.timeout = cgroup.Limits{MemoryBytes: 128 << 20, Pids: 64, CPUs: 1}, time.Hour
			if _, err := confine(ctx, j, opts); err != nil {
				b.Error(err)
			}
		}()
		<-armed
		runJobs(b)
		cancel()
		<-gone
	})
}

func runJobs(b *testing.B) {
	opts := testOptions(b)
	for b.Loop() {
		out, err := confine(b.Context(), testJob("true"), opts)
		if err != nil || len(out.runs) != 1 || out.runs[0].exitCode != 0 {
			b.Fatal(out, err)
		}
	}
}
