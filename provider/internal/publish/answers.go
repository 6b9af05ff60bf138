package publish

import (
	"context"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
)

// gatherFor is how long relays' answers are gathered, so that they share a commit:
// those that no job waits for, and those that end a free job. A crash forgets them,
// and their events are offered again, which changes nothing at a relay that has
// them. Where money depends on an answer it is recorded before anything else.
const gatherFor = 200 * time.Millisecond

// gather keeps answers for the next commit of any. Their event stays in flight
// until then: a look at the store would find it unanswered.
func (p *Publisher) gather(acks []job.Ack) {
	p.mu.Lock()
	p.gathered = append(p.gathered, acks...)
	p.mu.Unlock()
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// record commits answers, and all that were gathered with them.
func (p *Publisher) record(ctx context.Context, acks ...job.Ack) error {
	p.mu.Lock()
	more := p.gathered
	p.gathered = nil
	p.mu.Unlock()
	if acks = append(acks, more...); len(acks) == 0 {
		return nil
	}
	err := p.cfg.Store.AddAcks(ctx, acks...)
	for _, a := range more {
		p.landed(a.EventID)
	}
	return err
}

// serveGathered commits what was gathered and goes with nothing else.
func (p *Publisher) serveGathered(ctx context.Context) {
	for {
		select {
		case <-p.due:
		case <-ctx.Done():
			return
		}

		select {
		case <-time.After(gatherFor):
		case <-ctx.Done():
			return // serve commits the rest
		}

		if err := p.record(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("record relay answers", "err", err)
			p.cfg.OnStoreError(err)
		}
	}
}

// resultOffers is how often a result is offered before what relays said of it is
// recorded and puts it off. Each offer takes as long as the market gives relays
// that want events to come more slowly.
const resultOffers = 3

// publishUntilAcked publishes a result, whose buyer waits, again at once if all that keeps it
// from a relay is that others of ours came before it. Nothing is recorded between:
// after a crash the result is as due as it was.
func (p *Publisher) publishUntilAcked(ctx context.Context, ev nostr.Event) []job.Ack {
	acks := p.Publish(ctx, ev)
	for n := 1; n < resultOffers && crowdedOut(acks) && ctx.Err() == nil; n++ {
		acks = p.Publish(ctx, ev)
	}
	return acks
}

// crowdedOut reports whether no relay took an event, and one would at another time.
func crowdedOut(acks []job.Ack) bool {
	limited := false
	for _, a := range acks {
		if a.OK {
			return false
		}
		limited = limited || strings.HasPrefix(a.Message, "rate-limited:")
	}
	return limited
}

// OKs counts the relays that took an event.
func OKs(eventID string, acks []job.Ack) int {
	oks := map[string]struct{}{}
	for _, a := range acks {
		if a.OK && a.EventID == eventID {
			oks[a.Relay] = struct{}{}
		}
	}
	return len(oks)
}
