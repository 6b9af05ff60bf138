package provider

import (
	"context"
	"time"
)

// gatherFor is how long relays' answers are gathered, so that they share a commit:
// those that no job waits for, and those that end a free job. A crash forgets them,
// and their events are offered again, which changes nothing at a relay that has
// them. Where money depends on an answer it is recorded before anything else.
const gatherFor = 200 * time.Millisecond

// gather keeps answers for the next commit of any. Their event stays in flight
// until then: a look at the store would find it unanswered.
func (o *outbox) gather(acks []Ack) {
	o.mu.Lock()
	o.gathered = append(o.gathered, acks...)
	o.mu.Unlock()
	select {
	case o.due <- struct{}{}:
	default:
	}
}

// record commits answers, and all that were gathered with them.
func (o *outbox) record(ctx context.Context, acks ...Ack) error {
	o.mu.Lock()
	more := o.gathered
	o.gathered = nil
	o.mu.Unlock()
	if acks = append(acks, more...); len(acks) == 0 {
		return nil
	}
	err := o.store.AddAcks(ctx, acks...)
	for _, a := range more {
		o.landed(a.EventID)
	}
	return err
}

// serveGathered commits what was gathered and goes with nothing else.
func (o *outbox) serveGathered(ctx context.Context) {
	for {
		select {
		case <-o.due:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(gatherFor):
		case <-ctx.Done():
			return // serve commits the rest
		}
		if err := o.record(ctx); err != nil && ctx.Err() == nil {
			o.log.Error("record relay answers", "err", err)
			o.failed(err)
		}
	}
}
