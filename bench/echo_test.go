package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkEcho is a free job from the buyer's signature to its stored and
// checked result: relay, databases and blob server are real, the work is
// nothing. inflight is how many jobs the buyer has open at once.
func BenchmarkEcho(b *testing.B) {
	for _, inflight := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) {
			m := newTrade(b)
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range inflight {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						begin := time.Now()
						if _, err := m.job(context.Background(), fmt.Sprint("echo ", i)); err != nil {
							b.Error(err)
							return
						}
						took[i] = time.Since(begin)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			slices.Sort(took)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*95/100]), "p95-ms")
			b.ReportMetric(ms(took[len(took)-1]), "max-ms")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// What the benchmark measures is a job that works.
func TestEcho(t *testing.T) {
	m := newTrade(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got, err := m.job(ctx, "echo hello")
	if err != nil || got != "echo hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}
