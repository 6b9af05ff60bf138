package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

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

// BenchmarkUpload uploads blobs of 2 KiB, 32 at once. Its processor time is that
// of the clients too, which have signed before.
func BenchmarkUpload(b *testing.B) {
	const atOnce = 32
	r := start(b, Config{Limits: Limits{MaxUploads: 4 * atOnce}})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	b.Cleanup(client.CloseIdleConnections)
	requests := make([]*http.Request, b.N)
	for i := range requests {
		doc := fmt.Sprintf("%2048d", i)
		req, err := http.NewRequest(http.MethodPut, "http://"+r.addr+"/upload", strings.NewReader(doc))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", authFor(b, fmt.Sprintf("%064x", i%atOnce+1), "upload", sha(doc), nil))
		requests[i] = req
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	before := cpu(b)
	b.ResetTimer()
	for _, req := range requests {
		g.Go(func() error {
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
				return fmt.Errorf("%s: %w", resp.Status, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/upload")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uploads/s")
}
