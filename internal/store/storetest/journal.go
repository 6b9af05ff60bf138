package storetest

import (
	"context"

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
