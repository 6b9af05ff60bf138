package buyer_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
)

// as is an event of the cheat's with another domain, or with none.
func (c *cheat) as(ev nostr.Event, d domain.Domain) nostr.Event {
	tags := slices.DeleteFunc(slices.Clone(ev.Tags), func(t nostr.Tag) bool { return t[0] == domain.TagName })
	if d != "" {
		tags = append(tags, d.Tag())
	}
	return c.event(c.key, ev.Kind, tags, ev.Content)
}

// TestOtherDocumentsAreNotPaid: an offer that is signed as anything but a quote is
// none, though every word of it is right.
func TestOtherDocumentsAreNotPaid(t *testing.T) {
	c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		offer := c.offer(req, func(*deal) {})
		said := []nostr.Event{}
		for _, d := range append(domain.All(), "") {
			if d != domain.Quote {
				said = append(said, c.as(offer, d))
			}
		}
		return append(said, c.end(req))
	}, nil, buyer.Limits{})
	if !errors.Is(err, buyer.ErrFailed) || p.Attempt != nil || len(c.sent) != 0 {
		t.Errorf("purchase %s (%s), %v, %d payments", p.State, p.Reason, err, len(c.sent))
	}
}

// TestOtherDocumentsAreNoResult: nor is a result that is signed as something else.
func TestOtherDocumentsAreNoResult(t *testing.T) {
	_, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		result := c.result(req, func(*answer) {})
		said := []nostr.Event{}
		for _, d := range domain.All() {
			if d != domain.Result {
				said = append(said, c.as(result, d))
			}
		}
		return append(said, c.end(req))
	}, nil, buyer.Limits{})
	if !errors.Is(err, buyer.ErrFailed) || p.Output != nil {
		t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
}
