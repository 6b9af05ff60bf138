package server

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// unsigned are events as they come from the wire, without a signature: the
// store does not check them.
func unsigned(n int) []*job {
	jobs := make([]*job, n)
	for i := range jobs {
		ev := nostr.Event{
			Kind: 1, PubKey: fmt.Sprintf("%064x", i%50), CreatedAt: nostr.Timestamp(1_700_000_000 + i),
			Content: fmt.Sprint(i, strings.Repeat(" lorem ipsum", 20)), Sig: strings.Repeat("0", 128),
			Tags: nostr.Tags{{"t", "bench"}, {"e", fmt.Sprintf("%064x", i)}},
		}
		ev.ID = nip01.ID(&ev)
		jobs[i] = &job{event: &ev, raw: nip01.Marshal(&ev), cost: 1}
	}
	return jobs
}

// cpu is the processor time that this process has taken.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPut stores events in batches of 64, a commit each.
func BenchmarkPut(b *testing.B) {
	srv, err := New(b.Context(), Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	jobs := unsigned(b.N * 64)
	before := cpu(b)
	b.ResetTimer()
	for i := range b.N {
		if _, err := srv.store.put(jobs[i*64 : (i+1)*64]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N*64), "cpu-us/event")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*64), "us/event")
}
