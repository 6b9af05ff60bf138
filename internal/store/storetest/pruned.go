package storetest

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// FillPruned sells two jobs whose quotes promise to keep something for a second, prunes
// one, and leaves the other disputed. The clock is where it was.
func FillPruned(t testing.TB, k *DB) {
	t.Helper()
	keep := receipts.Retention{DisputeMs: 1000, ResultsMs: 1000, ArtifactsMs: 1000, TrajectoriesMs: 1000, JournalsMs: 1000, BlobsMs: 1000, EventsMs: 1000}
	for _, name := range []string{"to be pruned", "disputed"} {
		j := Job(name, receipts.ModeHold)
		j.Quote = []byte(`{"name":"` + name + `","retention":{"artifacts_ms":1000,"results_ms":1000}}`)
		j.QuoteHash = hashing.Bytes(j.Quote)
		ToState(t, k.Sales("p"), j, job.StateSucceeded)
		if name == "disputed" {
			Must(t, k.Pruning().SetDispute(t.Context(), j.RequestID, true))
		}
	}

	was := k.Now
	defer func() { k.Now = was }()
	k.Now = k.Now.Add(time.Minute)
	if n, _, err := k.Pruning().Mark(t.Context(), keep); n != 2 || err != nil {
		t.Fatalf("%d parts are marked, %v", n, err)
	}
}
