package provider

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// behindUs is how far the clocks of buyers may be behind ours.
const behindUs = 5 * time.Minute

// filters are what a provider listens to. Requests that name nobody are open
// to all, so requests are not filtered by p here. What is said about jobs is wanted
// for as long as one is open, however long nobody was here to hear it.
func (p *Provider) filters() nostr.Filters {
	window := time.Now().Add(-p.limits.ClockWindow)
	since, about := nostr.Timestamp(window.Unix()), nostr.Timestamp(window.Unix())
	if p.oldest.Before(window) {
		about = nostr.Timestamp(p.oldest.Add(-behindUs).Unix()) // their clocks may be behind ours
	}
	me := []string{p.key}
	return nostr.Filters{
		{Kinds: p.requestKinds(), Since: &since},
		{Kinds: []int{kinds.Ping}, Tags: nostr.TagMap{"p": me}, Since: &since},
		{Kinds: []int{p.kinds.Acceptance}, Tags: nostr.TagMap{"p": me}, Since: &about},
		{Kinds: []int{kinds.Closing, kinds.NotTaken}, Tags: nostr.TagMap{"p": me}, Since: &about},
		{Kinds: []int{kinds.Deletion}, Tags: nostr.TagMap{"k": texts(p.requestKinds())}, Since: &about},
		p.ownFilter(),
	}
}

// requestKinds are our own, and the further ones.
func (p *Provider) requestKinds() []int { return append([]int{p.kinds.Request}, p.kinds.Also...) }

func texts(numbers []int) []string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = strconv.Itoa(n)
	}
	return list
}

// handle takes one verified event. It may be called again for the same event.
func (p *Provider) handle(ctx context.Context, ev nostr.Event) {
	p.intake.Note(ev)
	if !p.handling.TryGo(func() error { p.dispatch(ctx, ev); return nil }) {
		// All slots busy: wait here, which slows reading, not memory.
		p.handling.Go(func() error { p.dispatch(ctx, ev); return nil })
	}
}

func (p *Provider) dispatch(ctx context.Context, ev nostr.Event) {
	if slices.Contains(p.requestKinds(), ev.Kind) {
		p.intake.Request(ctx, ev)
		return
	}

	switch ev.Kind {
	case p.kinds.Acceptance:
		p.flow.Accept(ctx, ev)
	case kinds.Closing:
		p.flow.Reveal(ctx, ev)
	case kinds.Deletion, kinds.NotTaken:
		p.intake.Cancel(ev)
	case kinds.Ping:
		p.ping(ctx, ev)
	case kinds.Beat, kinds.Feedback, p.kinds.Receipt:
		if ev.PubKey == p.key {
			p.own(ctx, ev)
		}
	}
}
