package sigbatch_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// processor is what the process has computed so far, in ns: on a machine that
// others use too it says more than the time that passed.
func processor(b *testing.B) float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkBatch is one signature of a batch, all by one key or each by its own.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{1, 5, 64, 320, 1280} {
		for _, keys := range slices.Compact([]int{1, size}) {
			b.Run(fmt.Sprintf("%d/keys=%d", size, keys), func(b *testing.B) {
				all := make([]signed, size)
				for i := range all {
					all[i] = signSchnorr(b, i%keys, i)
				}
				b.ReportAllocs()
				b.ResetTimer()
				began := processor(b)
				var batch sigbatch.Batch
				for range b.N {
					batch.Reset()
					for i := range all {
						all[i].addTo(&batch)
					}
					if !batch.Valid(0, size) {
						b.Fatal("not valid")
					}
				}
				b.ReportMetric((processor(b)-began)/float64(b.N*size), "cpu-ns/signature")
			})
		}
	}
}
