package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	// relayPatience is how long a relay may take to serve our subscription.
	relayPatience = 30 * time.Second
	// eventsMax bounds the events that are read of one member while it is to reveal.
	eventsMax = 64
)

// closing signs the event that ends the commits: it lists the results whose
// commit counts.
func (c *Client) closing(ctx context.Context, answers []answer) ([]byte, error) {
	doc := receipts.Closing{Version: receipts.Version}
	for _, a := range answers {
		result, err := eventOf(a.purchase.SealedEvent)
		if err != nil {
			return nil, err
		}
		doc.Results = append(doc.Results, receipts.PanelResult{Provider: a.member.Provider, RequestID: a.member.RequestID, ResultID: result.ID})
	}

	slices.SortFunc(doc.Results, func(a, b receipts.PanelResult) int { return strings.Compare(a.RequestID, b.RequestID) })
	content, err := doc.Canonical()
	if err != nil {
		return nil, err
	}
	var tags nostr.Tags
	for _, r := range doc.Results {
		tags = append(tags, nostr.Tag{"e", r.RequestID}, nostr.Tag{"p", r.Provider})
	}
	_, raw, err := c.buyer.Sign(ctx, kinds.Closing, domain.Closing, tags, string(content))
	return raw, err
}

// reveals publishes the closing and keeps every reveal that opens its commit,
// until all are here or providers were silent for AnswerTimeout. What was
// revealed before a restart counts.
func (r *run) reveals(ctx context.Context, p Panel, answers []answer) error {
	missing := map[string]answer{}
	filter := nostr.Filter{Kinds: []int{kinds.Feedback}, Tags: nostr.TagMap{}}
	for _, a := range answers {
		if s := p.member(a.member.RequestID); s != nil && s.Revealed == nil {
			missing[a.member.RequestID] = a
			filter.Authors = append(filter.Authors, a.member.Provider)
			filter.Tags["e"] = append(filter.Tags["e"], a.member.RequestID)
		}
	}

	if len(missing) == 0 {
		return nil
	}
	closing, err := eventOf(p.Closing)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	events, ready := make(chan nostr.Event, 64), make(chan struct{}, 1)
	g.Go(func() error {
		return r.c.cfg.Market.Listen(gctx, nostr.Filters{filter}, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(ev nostr.Event) {
			select {
			case events <- ev:
			case <-gctx.Done():
			}
		})
	})
	err = r.collect(gctx, closing, missing, events, ready)
	broken := gctx.Err() != nil && ctx.Err() == nil // the subscription ended by itself
	stop()
	if lost := g.Wait(); broken {
		return lost
	}
	return err
}

// collect takes reveals one by one; the subscription is served before the
// closing is published, so that none is missed.
func (r *run) collect(ctx context.Context, closing nostr.Event, missing map[string]answer, events <-chan nostr.Event, ready <-chan struct{}) error {
	patience := time.NewTimer(relayPatience)
	defer patience.Stop()

	asked, heard := false, map[string]int{}
	for len(missing) > 0 {
		select {
		case <-ready:
			if asked {
				continue
			}
			if err := r.sendClosing(ctx, closing, missing); err != nil {
				return fmt.Errorf("publish closing: %w", err)
			}
			asked = true
			patience.Reset(r.c.cfg.AnswerTimeout)
		case ev := <-events:
			if heard[ev.PubKey]++; heard[ev.PubKey] > eventsMax {
				continue // it only talks
			}
			if err := r.reveal(ctx, ev, missing); err != nil {
				return err
			}
		case <-patience.C:
			if !asked {
				return fmt.Errorf("%w in %v", buyer.ErrNoRelay, relayPatience)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	return nil
}

// sendClosing publishes the closing, or hides it for each member of an encrypted
// panel: who sits with whom is then told to the members alone.
func (r *run) sendClosing(ctx context.Context, closing nostr.Event, missing map[string]answer) error {
	sent := map[string]bool{}
	for _, a := range missing {
		ev, err := r.c.buyer.EncryptFor(ctx, a.purchase, closing)
		if err != nil {
			return err
		}
		if sent[ev.ID] {
			continue // in the clear one is for all
		}
		sent[ev.ID] = true
		if err := r.c.cfg.Market.Send(ctx, ev); err != nil {
			return err
		}
	}

	return nil
}

// reveal keeps one reveal and takes its member off the missing ones. A reveal that
// does not open the member's own commit is dropped: it is worth nothing, and a
// true one may follow.
func (r *run) reveal(ctx context.Context, ev nostr.Event, missing map[string]answer) error {
	id := ev.Tags.Find("e")
	if id == nil {
		return nil
	}
	a, ok := missing[id[1]]
	if !ok || ev.PubKey != a.member.Provider {
		return nil
	}
	ev, err := r.c.buyer.DecryptFrom(ctx, a.purchase, ev)
	if status := ev.Tags.Find("status"); err != nil || status == nil || status[1] != receipts.StatusReveal || domain.Demand(domain.Reveal, ev.Tags) != nil {
		return nil // what cannot be read is no reveal
	}
	doc, err := receipts.ParseReveal([]byte(ev.Content))
	if err == nil {
		err = doc.Opens(*a.commit, a.member.Provider, a.member.RequestID)
	}
	if err != nil {
		r.c.cfg.Log.Warn("reveal refused", "request", id[1], "event", ev.ID, "err", err)
		r.say(a.member.Provider, buyer.Progress{At: time.Now().UTC(), Who: "buyer", What: "refused", Hash: ev.ID, Text: err.Error()})
		return nil
	}
	raw, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	if err := r.c.cfg.Store.SetReveal(ctx, id[1], doc.AgreementHash, raw); err != nil {
		return fmt.Errorf("store reveal: %w", err)
	}

	delete(missing, id[1])
	r.say(a.member.Provider, buyer.Progress{At: time.Now().UTC(), Who: "provider", What: "revealed", Hash: doc.AgreementHash.String()})
	return nil
}
