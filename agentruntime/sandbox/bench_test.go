package sandbox

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
)

// BenchmarkSandbox is what a job costs before and after its commands.
func BenchmarkSandbox(b *testing.B) {
	opts := testOptions(b)
	for b.Loop() {
		runJob(b, opts, "true")
	}
}

// BenchmarkNeighbours is how long a job that computes takes alone and beside
// bombs, each of which may have one processor and 128 MiB as the job may.
// The two take turns in short rounds, because the machine is not alone either;
// what counts is the ratio of a run. The processor time that a job used, cpu,
// has no wait for other processes in it: it tells what a bomb costs through the
// kernel and the caches, and hardly depends on who else uses the machine.
func BenchmarkNeighbours(b *testing.B) {
	const work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
	// Not without bounds: a shell ends at the first process that it cannot have.
	const forks = "echo armed; while :; do i=0; while [ $i -lt 32 ]; do (exit) & i=$((i+1)); done; wait; done"
	for name, bomb := range map[string]string{
		"processor": "echo armed; while :; do :; done & while :; do :; done & while :; do :; done",
		"fork":      forks,
		"memory":    "echo armed; while :; do head -c 100M /dev/zero | tail -c 90M >/dev/null; done",
		"disk":      "echo armed; while :; do head -c 8M /dev/zero >/tmp/$((i=(i+1)%2)); done",
	} {
		b.Run(name, func(b *testing.B) {
			opts := testOptions(b)
			var alone, beside jobTimes
			for b.Loop() {
				for range 5 {
					alone.add(b, opts, work)
				}
				stop := arm(b, bomb)
				for range 5 {
					beside.add(b, opts, work)
				}
				stop()
			}
			reportRatio(b, "", alone.wall, beside.wall)
			reportRatio(b, "cpu-", alone.cpu, beside.cpu)
		})
	}
}

// jobTimes are what jobs took: by the clock, and of the processor.
type jobTimes struct{ wall, cpu []time.Duration }

func (j *jobTimes) add(b *testing.B, opts Options, command string) {
	b.Helper()
	before := childrenTime(b)
	j.wall = append(j.wall, runJob(b, opts, command))
	j.cpu = append(j.cpu, childrenTime(b)-before)
}

// childrenTime is the processor time of all processes that have been waited
// for: a bomb that still runs is not among them.
func childrenTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func reportRatio(b *testing.B, what string, alone, beside []time.Duration) {
	for _, at := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		a, c := quantile(alone, at.part), quantile(beside, at.part)
		b.ReportMetric(float64(a.Microseconds())/1000, what+at.name+"-alone-ms")
		b.ReportMetric(float64(c.Microseconds())/1000, what+at.name+"-beside-ms")
		b.ReportMetric(float64(c)/float64(a), what+at.name+"-ratio")
	}
}

// arm starts a bomb and returns what ends it.
func arm(b *testing.B, bomb string) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	armed, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		opts := testOptions(b)
		tell := sync.OnceFunc(func() { close(armed) })
		defer tell()
		opts.Stream = func(string, string) { tell() }
		j := testJob(bomb)
		j.limits, j.timeout = cgroup.Limits{MemoryBytes: 128 << 20, Pids: 64, CPUs: 1}, time.Hour
		if _, err := confine(ctx, j, opts); err != nil {
			b.Error(err)
		}
	}()
	<-armed
	return func() {
		select {
		case <-gone:
			b.Error("the bomb ended by itself")
		default:
		}
		cancel()
		<-gone
	}
}

func runJob(b *testing.B, opts Options, command string) time.Duration {
	b.Helper()
	start := time.Now()
	out, err := confine(b.Context(), testJob(command), opts)
	if err != nil || len(out.runs) != 1 || out.runs[0].exitCode != 0 {
		b.Fatal(out, err)
	}
	return time.Since(start)
}

func quantile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}
