package provider

import (
	"context"
	"strings"
)

// resultOffers is how often a result is offered before what relays said of it is
// recorded and puts it off. Each offer takes as long as the market gives relays
// that want events to come more slowly.
const resultOffers = 3

// insist publishes a result, whose buyer waits, again at once if all that keeps it
// from a relay is that others of ours came before it. Nothing is recorded between:
// after a crash the result is as due as it was.
func (o *outbox) insist(ctx context.Context, ev nostrEvent) []Ack {
	acks := o.toRelays(ctx, ev)
	for n := 1; n < resultOffers && crowdedOut(acks) && ctx.Err() == nil; n++ {
		acks = o.toRelays(ctx, ev)
	}
	return acks
}

// crowdedOut reports whether no relay took an event, and one would at another time.
func crowdedOut(acks []Ack) bool {
	limited := false
	for _, a := range acks {
		if a.OK {
			return false
		}
		limited = limited || strings.HasPrefix(a.Message, "rate-limited:")
	}
	return limited
}
