package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
)

// BenchmarkJournalAppend is one durable journal entry of a pipeline: on a thread
// among so many others, and on one so deep.
func BenchmarkJournalAppend(b *testing.B) {
	for _, wide := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("wide=%d", wide), func(b *testing.B) {
			k := storetest.Open(b)
			thread := ""
			for i := 0; i < wide; {
				storetest.Must(b, k.Update(b.Context(), func(tx *store.Tx) error {
					for end := min(i+1000, wide); i < end; i++ {
						thread = fmt.Sprintf("root.t-%d", i)
						if err := tx.EnsureThread(thread, "p"); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			appendTo(b, k, thread)
		})
	}
	for _, deep := range []int{1, 1_000} {
		b.Run(fmt.Sprintf("deep=%d", deep), func(b *testing.B) {
			k := storetest.Open(b)
			thread := "root" + strings.Repeat(".t", deep-1)
			storetest.Must(b, k.Update(b.Context(), func(tx *store.Tx) error { return tx.EnsureThread(thread, "p") }))
			appendTo(b, k, thread)
		})
	}
}

// BenchmarkHop is a message through a pipeline and its answer back, two durable
// journal entries, on so many threads at once. With TMPDIR in memory
// (/dev/shm) it is the cost without synchronisation.
func BenchmarkHop(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			k := storetest.Open(b)
			threads := hopThreads(b, k, n)
			var (
				left atomic.Int64
				wg   sync.WaitGroup
				took = make([][]time.Duration, n)
			)
			left.Store(int64(b.N))
			before, commits := cpu(b), k.Stats().Commits
			b.ResetTimer()
			for i, t := range threads {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						began := time.Now()
						in := hopIngress
						in.Payload = fmt.Appendf(nil, `{"n":%d}`, began.UnixNano())
						if _, err := t.Submit(b.Context(), in); err != nil {
							b.Error(err)
							return
						}
						took[i] = append(took[i], time.Since(began))
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(k.Stats().Commits-commits)/float64(b.N), "commits/op")
			all := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
		})
	}
}

var hopIngress = pipeline.Ingress{Namespace: "urn:bench:v1", Tag: "Ping", Payload: []byte(`{"n":1}`), Sender: "outside"}

// hopThreads are threads of one pipeline on k, each used once.
func hopThreads(b *testing.B, k *storetest.DB, n int) []*pipeline.Thread {
	b.Helper()
	check := func(doc []byte) error { var v struct{ N int }; return json.Unmarshal(doc, &v) }
	log := k.PipelineLog("main")
	p, err := pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{{
			Name: "echo", Description: "answers", Tags: []string{"Ping"}, Outputs: []string{"Pong"}, Tool: true,
			Handle: func(_ context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
				return pipeline.Reply("Pong", p.Bytes), nil
			},
		}},
		Schemas:  map[string]pipeline.Validate{"Ping": check, "Pong": check},
		Profiles: []pipeline.Profile{{Name: "main", Handlers: []string{"echo"}}},
		Journal:  log, Audit: log,
	})
	storetest.Must(b, err)
	threads := make([]*pipeline.Thread, n)
	for i := range threads {
		threads[i], err = p.Open(pipeline.ThreadID(fmt.Sprintf("root.t-%d", i)), "main")
		storetest.Must(b, err)
		_, err = threads[i].Submit(b.Context(), hopIngress)
		storetest.Must(b, err)
	}
	return threads
}

func appendTo(b *testing.B, k *storetest.DB, thread string) {
	b.Helper()
	log := k.PipelineLog("p")
	e := pipeline.Entry{
		Thread: pipeline.ThreadID(thread), Profile: "p", Direction: pipeline.Outbound, Handler: "h", PayloadTag: "t",
		PayloadHash: storetest.Digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainForever},
	}
	var took []time.Duration
	before := cpu(b)
	for b.Loop() {
		began := time.Now()
		if err := log.Append(b.Context(), e); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}

// cpu is the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
