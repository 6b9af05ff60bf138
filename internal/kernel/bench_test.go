package kernel

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// BenchmarkJournalAppend is one durable journal entry of a pipeline: on a thread
// among so many others, and on one so deep.
func BenchmarkJournalAppend(b *testing.B) {
	for _, wide := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("wide=%d", wide), func(b *testing.B) {
			k := open(b)
			thread := ""
			for i := 0; i < wide; {
				must(b, k.Update(b.Context(), func(tx *Tx) error {
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
			k := open(b)
			thread := "root" + strings.Repeat(".t", deep-1)
			must(b, k.Update(b.Context(), func(tx *Tx) error { return tx.EnsureThread(thread, "p") }))
			appendTo(b, k, thread)
		})
	}
}

func appendTo(b *testing.B, k *testKernel, thread string) {
	b.Helper()
	log := k.PipelineLog("p")
	e := pipeline.Entry{
		Thread: pipeline.ThreadID(thread), Profile: "p", Direction: pipeline.Outbound, Handler: "h", PayloadTag: "t",
		PayloadHash: digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainForever},
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
