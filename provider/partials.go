package provider

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/nbd-wtf/go-nostr"
)

// Partial output is bounded: it is a courtesy, the result has everything.
const (
	partialBytes  = 8 << 10 // of one 7000
	partialEvents = 64      // of one job
)

// tickEvery is the clock by which a buyer hears of a run that it may yet not pay
// for: that it goes on, or how it ended.
const tickEvery = 5 * time.Second

// showsOutput reports whether a run's output is shown as it appears. Until a
// payment is final a buyer can have it back, by a job that fails or is canceled,
// so nothing is shown of a job that has a price.
func showsOutput(job Job) bool { return job.Mode == receipts.ModeFree }

// untilTick is how long it is to the next tick of a run.
func untilTick(began time.Time) time.Duration {
	return tickEvery - time.Since(began)%tickEvery
}

// stages tells by the clock that a run goes on, until ctx ends. Whether it prints,
// how much, and where is what a job could tell its result by, so nothing of that
// is in it.
func (p *Provider) stages(ctx context.Context, job Job, began time.Time) {
	to := publish.BuyerOf(job)
	for seq := 1; ; seq++ {
		select {
		case <-time.After(untilTick(began)):
		case <-ctx.Done():
			return
		}
		p.tellPartial(to, "", map[string]any{"seq": seq, "stage": StateRunning})
	}
}

// partials returns what the stream of a run whose output is shown is given to.
func (p *Provider) partials(job Job) func(channel, text string) {
	to := publish.BuyerOf(job)
	seq := 0
	return func(channel, text string) {
		if seq++; seq > partialEvents {
			return
		}
		p.tellPartial(to, channel, map[string]any{
			"seq": seq, "channel": channel, "bytes": len(text), "text": clip.Text(text, partialBytes),
		})
	}
}

func (p *Provider) tellPartial(to publish.Addressee, info string, part map[string]any) {
	content, err := json.Marshal(part)
	if err != nil {
		return
	}
	p.pub.Offer(func(ctx context.Context) (nostr.Event, error) {
		return p.pub.FeedbackEvent(ctx, to, "partial", info, string(content))
	})
}
