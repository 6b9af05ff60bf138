package provider

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Partial output is bounded: it is a courtesy, the result has everything.
const (
	partialBytes  = 8 << 10 // of one 7000
	partialEvents = 64      // of one job
)

// shownOutput decides between a cancellation and the first output: whichever
// comes first wins for good.
type shownOutput struct{ decided atomic.Int32 }

const (
	outputShown = 1
	runCanceled = 2
)

// begin reports whether output may be shown.
func (s *shownOutput) begin() bool {
	return s.decided.CompareAndSwap(0, outputShown) || s.decided.Load() == outputShown
}

// close reports whether the run may still be canceled.
func (s *shownOutput) close() bool { return s.decided.CompareAndSwap(0, runCanceled) }

// showsOutput reports whether a run's output is shown before its result is paid
// for. It is not where the result is what is for sale (postpay, sealed). Nor is
// that of a paid sandbox job: its buyer's own commands and expectations decide
// whether it is charged at all, and could see to it that it never is.
func showsOutput(job Job) bool {
	return job.Mode == receipts.ModeFree ||
		job.Mode != receipts.ModePostpay && !isSealed(job) && job.SchemaID != string(schemas.SandboxRun)
}

// partials returns what a run's stream is given to. Where no output is shown,
// partials carry counters.
func (p *Provider) partials(job Job, shown *shownOutput) func(channel, text string) {
	to := buyerOf(job)
	seq, counters := 0, !showsOutput(job)
	return func(channel, text string) {
		seq++
		if seq > partialEvents {
			return
		}
		part := map[string]any{"seq": seq, "channel": channel, "bytes": len(text)}
		if !counters {
			if job.Mode != receipts.ModeFree && !shown.begin() {
				return // it is being canceled
			}
			part["text"] = clip(text, partialBytes)
		}
		content, err := json.Marshal(part)
		if err != nil {
			return
		}
		p.outbox.offer(func(ctx context.Context) (nostrEvent, error) {
			return p.feedbackEvent(ctx, to, "partial", channel, string(content))
		})
	}
}
