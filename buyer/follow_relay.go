package buyer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

// listen subscribes to the provider's answers and waits until a relay serves
// the subscription: an answer that comes before would be lost.
func (f *follower) listen(ctx context.Context, p Purchase) error {
	own := f.c.cfg.Kinds
	filters := nostr.Filters{{
		Kinds:   []int{kinds.Feedback, own.Request + kinds.ResultOffset, own.Receipt},
		Authors: []string{p.Provider}, Tags: nostr.TagMap{"e": {p.RequestID}},
	}}
	ready := make(chan struct{}, 1)
	f.g.Go(func() error {
		return f.c.cfg.Market.Listen(ctx, filters, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(ev nostr.Event) {
			select {
			case f.events <- ev:
			case <-ctx.Done():
			}
		})
	})
	patience := time.NewTimer(relayPatience)
	defer patience.Stop()

	for {
		select {
		case <-ready:
			return nil
		case pay := <-f.paid:
			if err := f.payment(ctx, pay); err != nil {
				return err
			}
		case <-patience.C:
			return fmt.Errorf("%w in %v", ErrNoRelay, relayPatience)
		case <-ctx.Done():
			return fmt.Errorf("no relay answered: %w", context.Cause(ctx))
		}
	}
}

// publish sends what we have signed so far; sending it twice is harmless. Only
// a request that must still be heard has to be taken: relays refuse one that
// its cancellation has deleted, or that has expired.
func (f *follower) publish(ctx context.Context, p Purchase) error {
	var feeAcceptance []byte
	if p.Engagement != nil {
		feeAcceptance = p.Engagement.Acceptance
	}

	for i, raw := range [][]byte{p.Request, feeAcceptance, p.Acceptance, p.Cancel} {
		if raw == nil || i == 0 && (p.Cancel != nil || f.terms.Expired(time.Now())) {
			continue
		}
		var ev nostr.Event
		if err := json.Unmarshal(raw, &ev); err != nil {
			return fmt.Errorf("stored event: %w", err)
		}
		if i == 1 || i == 2 {
			var err error
			if ev, err = f.c.author.Wrap(ctx, p, ev); err != nil {
				return err
			}
		}

		if err := f.c.cfg.Market.Send(ctx, ev); err != nil && i == 0 && p.State == StateRequested && p.SealedEvent == nil {
			return fmt.Errorf("publish request: %w", err)
		}
	}

	if p.State == StateRequested && p.Cancel != nil {
		return f.c.cfg.Store.CloseUnpaid(ctx, f.id, StateCanceled, canceledText(p))
	}
	f.say("buyer", "requested", p.MaxMsats, p.JobHash.String(), p.SchemaID)
	return nil
}

// seenMax bounds the ids that are kept of a provider's events.
const seenMax = 4096

// see notes that an event is taken. When a provider talks without end they are
// forgotten: its events may be taken again, as after a crash.
func (f *follower) see(id string) {
	if len(f.seen) >= seenMax {
		clear(f.seen)
	}
	f.seen[id] = true
}

// event takes one event of the provider's. Events that do not fit are logged
// and dropped; only a signed quote that cheats ends the purchase.
func (f *follower) event(ctx context.Context, ev nostr.Event) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if f.seen[ev.ID] || ev.PubKey != p.Provider || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return nil
	}

	f.see(ev.ID)
	f.heard = time.Now()
	def(&f.began, f.heard)
	raw, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	outer := ev.ID
	if ev, err = f.c.author.Reveal(ctx, p.Purchase, ev); err != nil {
		return f.reject(ev, err)
	}
	if ev.ID != outer { // a signed event came out of it
		if raw, err = json.Marshal(ev); err != nil {
			return err
		}
	}

	f.signed = raw
	switch ev.Kind {
	case kinds.Feedback:
		return f.feedback(ctx, p, ev)
	case f.c.cfg.Kinds.Request + kinds.ResultOffset:
		return f.result(ctx, p, ev)
	case f.c.cfg.Kinds.Receipt:
		if proof.PurposeOf(ev) == receipts.PurposeResult && p.Output == nil {
			f.judge.Early(ev)
			return nil
		}
		return f.receipt(ctx, p, ev)
	}

	return nil
}
