package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

const dayMs = receipts.Keep(24 * 3_600_000)

// promised is what the quotes of these tests promise.
func promised() receipts.Retention {
	return receipts.Retention{
		DisputeMs: int64(7 * dayMs), ResultsMs: 90 * dayMs, ArtifactsMs: 7 * dayMs, TrajectoriesMs: 90 * dayMs,
		JournalsMs: 30 * dayMs, BlobsMs: 7 * dayMs, EventsMs: 30 * dayMs,
	}
}

// sell takes a job to its end, with one artifact of its own.
func sell(t testing.TB, k *storetest.DB, name string, artifact []byte) {
	t.Helper()
	j := storetest.Job(name, receipts.ModeHold)
	doc, err := json.Marshal(map[string]any{"name": name, "retention": promised()})
	storetest.Must(t, err)
	j.Quote, j.QuoteHash = doc, hashing.Bytes(doc)
	s := k.Sales("p")
	storetest.ToState(t, s, j, job.StateRunning)
	r, contents := storetest.ResultOf(j, 1)
	r.Artifacts = []hashing.Digest{hashing.Bytes(artifact)}
	storetest.Must(t, s.Finish(t.Context(), j.RequestID, 1, r, append(contents, artifact), storetest.EventFor(j, "6050")))
	storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), storetest.Issuer(j)))
}

// artifactOf is content that no other job has.
func artifactOf(name string, size int) []byte {
	data := make([]byte, size)
	copy(data, name)
	return data
}

func stage(k *storetest.DB, remove func(context.Context, hashing.Digest) error) *retention.Stage {
	return retention.New(k.Pruning(), promised(), remove, slog.New(slog.DiscardHandler))
}

// TestBlobsWaitForTheirServer: a blob is forgotten here only once the servers have
// deleted it; one that they cannot delete now waits for the next run, as all do where no
// node runs.
func TestBlobsWaitForTheirServer(t *testing.T) {
	k := storetest.Open(t)
	for i := range 3 {
		sell(t, k, fmt.Sprint(i), artifactOf(fmt.Sprint(i), 1000))
	}
	k.Now = storetest.Start.AddDate(1, 0, 0)
	storetest.Must(t, k.Pruning().TrustClock(t.Context()))

	removed := map[hashing.Digest]bool{}
	away := true
	remove := func(_ context.Context, d hashing.Digest) error {
		if away && len(removed) == 2 {
			return errors.New("the server is away")
		}
		removed[d] = true
		return nil
	}
	blobs := func() int {
		return k.Count(t, "SELECT count(DISTINCT digest) FROM job_contents WHERE part = 'blobs'")
	}
	all := blobs()

	for _, c := range []struct {
		what    string
		remove  func(context.Context, hashing.Digest) error
		away    bool
		parts   int
		wait    bool
		removed int
	}{
		{"no node runs", nil, true, 18, true, 0},
		{"the server is away", remove, true, 0, true, 2},
		{"the server is back", remove, false, 0, false, all},
		{"nothing is left", remove, false, 0, false, all},
	} {
		away = c.away
		done, err := stage(k, c.remove).Run(t.Context())
		if err != nil || done.Parts != c.parts || done.BlobsWait != c.wait || len(removed) != c.removed {
			t.Errorf("%s: %+v, %v; %d blobs of %d removed", c.what, done, err, len(removed), all)
		}
		if c.wait && blobs() == 0 {
			t.Errorf("%s: its blobs are forgotten", c.what)
		}
	}
	if n := blobs(); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if n := k.Count(t, "SELECT count(*) FROM contents"); n != 0 {
		t.Errorf("%d contents are left", n)
	}
}

// TestRunEndsWithItsContext: it leaves the rest to the next run.
func TestRunEndsWithItsContext(t *testing.T) {
	k := storetest.Open(t)
	for i := range 3 {
		sell(t, k, fmt.Sprint(i), artifactOf(fmt.Sprint(i), 1000))
	}
	k.Now = storetest.Start.AddDate(1, 0, 0)
	storetest.Must(t, k.Pruning().TrustClock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := stage(k, func(context.Context, hashing.Digest) error {
		cancel()
		return ctx.Err()
	}).Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	done, err := stage(k, func(context.Context, hashing.Digest) error { return nil }).Run(t.Context())
	if err != nil || done.BlobsWait || k.Count(t, "SELECT count(*) FROM pruned_open") != 0 {
		t.Errorf("the next run: %+v, %v", done, err)
	}
}
