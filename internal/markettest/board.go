package markettest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// Board is a market that holds announcements, and is searched as relays are.
type Board struct {
	T      *testing.T
	Events []nostr.Event
}

// Query returns what fits, newest first.
func (b *Board) Query(_ context.Context, f nostr.Filter) (found []nostr.Event, err error) {
	for _, ev := range b.Events {
		if f.Matches(&ev) {
			found = append(found, ev)
		}
	}
	slices.SortFunc(found, func(a, c nostr.Event) int { return int(c.CreatedAt - a.CreatedAt) })
	return found[:min(len(found), f.Limit)], nil
}

// Add puts up an event that was signed some time ago.
func (b *Board) Add(key *relay.Key, kind int, age time.Duration, content string, tags ...nostr.Tag) {
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(time.Now().Add(-age).Unix()), Tags: tags, Content: content}
	if err := key.Sign(b.T.Context(), &ev); err != nil {
		b.T.Fatal(err)
	}
	b.Events = append(b.Events, ev)
}

// Announce puts up an announcement with prices by job type.
func (b *Board) Announce(key *relay.Key, age time.Duration, base, perMinute map[string]int64) {
	jobs := []string{}
	for id := range base {
		jobs = append(jobs, id)
	}
	prices := map[string]receipts.Price{}
	for id := range base {
		prices[id] = receipts.Price{BaseMsats: base[id], PerMinuteMsats: perMinute[id]}
	}
	doc, err := json.Marshal(map[string]any{
		"name": "x", "capabilities": map[string]any{"supported_jobs": jobs}, "pricing": map[string]any{"sandbox_per_minute_msats": 99_000},
		"lightwork": map[string]any{"base_msats": base, "prices": prices, "modes": map[string][]string{jobs[0]: {"hold"}}},
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.Add(key, 31990, age, string(doc), nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, domain.Announcement.Tag())
}
