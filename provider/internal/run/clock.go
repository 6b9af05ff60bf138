package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
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
func showsOutput(j *openjob.Job) bool { return j.Mode == receipts.ModeFree }

// untilTick is how long it is to the next tick of a run.
func untilTick(began time.Time) time.Duration {
	return tickEvery - time.Since(began)%tickEvery
}

// stages tells by the clock that a run goes on, until ctx ends. Whether it prints,
// how much, and where is what a job could tell its result by, so nothing of that
// is in it.
func (a *Attempt) stages(ctx context.Context) {
	for seq := 1; ; seq++ {
		select {
		case <-time.After(untilTick(a.began)):
		case <-ctx.Done():
			return
		}
		a.tellPartial("", map[string]any{"seq": seq, "stage": job.StateRunning})
	}
}

// partials returns what the stream of a run whose output is shown is given to.
func (a *Attempt) partials() func(channel, text string) {
	seq := 0
	return func(channel, text string) {
		if seq++; seq > partialEvents {
			return
		}
		a.tellPartial(channel, map[string]any{
			"seq": seq, "channel": channel, "bytes": len(text), "text": clip.Text(text, partialBytes),
		})
	}
}

func (a *Attempt) tellPartial(info string, part map[string]any) {
	content, err := json.Marshal(part)
	if err != nil {
		return
	}
	a.cfg.Publisher.Offer(func(ctx context.Context) (nostr.Event, error) {
		return a.cfg.Publisher.FeedbackEvent(ctx, a.job.To, "partial", info, string(content))
	})
}

// What a TickResult says of a run.
const (
	tickSuccess = "success"
	tickFailure = "failure"
	tickTimeout = "timeout"
)

// tick tells that a run begins; what it returns tells how it ended, in whole ticks
// of the clock by which buyers hear of it. Both are courtesies that may be lost.
func (a *Attempt) tick(ctx context.Context) (ended func(status string)) {
	k := a.cfg.Lifecycle
	if k.TickRequest == 0 {
		return func(string) {}
	}
	began, err := a.cfg.Publisher.Lifecycle(ctx, k.TickRequest, lifecycle.TickRequest{Job: a.job.RequestID, Run: int64(a.job.Run), Runner: a.cfg.Key, Trigger: "job"})
	if err != nil {
		a.log.Error("lifecycle", "err", err)
		return func(string) {}
	}
	a.cfg.Publisher.Offer(func(context.Context) (nostr.Event, error) { return began, nil })
	start := time.Now()
	return func(status string) {
		if k.TickResult == 0 {
			return
		}
		ticks := (time.Since(start) + tickEvery - 1) / tickEvery
		r := lifecycle.TickResult{Request: began.ID, Runner: a.cfg.Key, Status: status, DurationMs: (ticks * tickEvery).Milliseconds(), Actions: 1}
		a.cfg.Publisher.Offer(func(ctx context.Context) (nostr.Event, error) { return a.cfg.Publisher.Lifecycle(ctx, k.TickResult, r) })
	}
}
