package buyer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
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

// TestOtherDocumentsAnnounceNothing: what a provider signs as something else is
// neither its announcement nor a sign of life. Programs without domains are listed
// as plain ones.
func TestOtherDocumentsAnnounceNothing(t *testing.T) {
	for _, d := range append(domain.All(), "") {
		b, key := newBoard(t), newKey(t)
		b.open(key, ordinary(receipts.Price{BaseMsats: 1_000}, nil))
		as := func(i int) {
			ev := b.Events[i]
			b.Events = b.Events[:i]
			tags := slices.DeleteFunc(slices.Clone(ev.Tags), func(t nostr.Tag) bool { return t[0] == domain.TagName })
			if d != "" {
				tags = append(tags, d.Tag())
			}
			b.Add(key, ev.Kind, time.Minute, ev.Content, tags...)
		}
		find := func(schema string) []buyer.Found {
			found, err := buyer.Scout{Market: b}.Find(t.Context(), schema, "")
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		as(1)
		found := find(run)
		if len(found) != 1 {
			t.Fatalf("%d providers", len(found))
		}
		if got, want := strings.Contains(strings.Join(found[0].Why, ", "), "alive"), d == domain.Beat || d == ""; got != want {
			t.Errorf("%q read as a beat: %v", d, found[0].Why)
		}
		b.Events = b.Events[:1]
		as(0)
		switch found := find(""); { // a program without domains says otherwise what it sells
		case d == domain.Announcement && (len(found) != 1 || found[0].Plain), d == "" && (len(found) != 1 || !found[0].Plain),
			d != domain.Announcement && d != "" && len(found) != 0:
			t.Errorf("%q read as an announcement: %+v", d, found)
		}
	}
}
