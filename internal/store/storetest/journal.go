package storetest

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// Entry is a message on a thread.
func Entry(thread string, r journal.Retention) journal.Entry {
	return journal.Entry{Thread: thread, Direction: journal.Outbound, Handler: "h", PayloadTag: "tag", Retention: r, RequestID: "req", CallID: "call"}
}

// AppendOne is an update of a pipeline that records one message.
func AppendOne(k *store.Store, thread, handler string) func() error {
	return func() error {
		return k.PipelineLog("p").Append(context.Background(), pipeline.Entry{
			Thread: pipeline.ThreadID(thread), Direction: pipeline.Outbound, Handler: handler, PayloadTag: "t",
			PayloadHash: Digest("payload"), Retention: pipeline.Retention{Policy: pipeline.RetainForever},
		})
	}
}

// PruneJournal deletes the entries whose days are over at now, at most limit of them, and
// returns how many.
func PruneJournal(tx *store.Tx, now time.Time, limit int) (int, error) {
	entries, err := tx.ExpiredEntries(now, limit)
	if err != nil {
		return 0, err
	}
	return tx.PruneEntries(now, entries)
}
