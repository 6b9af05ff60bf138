package buyer_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// board is a market that holds events.
type board struct {
	buyer.Market
	t      *testing.T
	events []nostr.Event
}

func (b *board) Query(_ context.Context, f nostr.Filter) (found []nostr.Event, err error) {
	for _, ev := range b.events {
		if f.Matches(&ev) {
			found = append(found, ev)
		}
	}
	slices.SortFunc(found, func(a, c nostr.Event) int { return int(c.CreatedAt - a.CreatedAt) })
	return found[:min(len(found), f.Limit)], nil
}

func (b *board) add(key *relay.Key, kind int, age time.Duration, content string, tags ...nostr.Tag) {
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(time.Now().Add(-age).Unix()), Tags: tags, Content: content}
	if err := key.Sign(b.t.Context(), &ev); err != nil {
		b.t.Fatal(err)
	}
	b.events = append(b.events, ev)
}

// announce puts up an announcement with prices by job type.
func (b *board) announce(key *relay.Key, age time.Duration, base, perMinute map[string]int64) {
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
		b.t.Fatal(err)
	}
	b.add(key, 31990, age, string(doc), nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, domain.Announcement.Tag())
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const (
	run   = "oa.sandbox_run.v1"
	embed = "oa.embedding.v1"
)

// TestRanking: each thing that is known moves a provider before one that has all
// the rest the same or better, and is said. The word of strangers moves nobody.
func TestRanking(t *testing.T) {
	const fresh, stale = time.Minute, 5 * time.Hour
	me, friend, stranger := newKey(t), newKey(t), newKey(t)
	address := func(k *relay.Key) nostr.Tag {
		return nostr.Tag{"a", "31990:" + k.PublicKey() + ":lightwork", "", "web"}
	}
	beat := func(b *board, by *relay.Key, age time.Duration) {
		b.add(by, 11998, age, "", nostr.Tag{"d", "lightwork"})
	}
	for name, tt := range map[string]struct {
		// The better one costs a tenth more, or as much as dearer says.
		set  func(b *board, better, worse *relay.Key) map[string]buyer.History
		age  time.Duration // of the better one's announcement
		why  string
		same bool // it moves nobody: the cheaper one stays first

		dearer int64
	}{
		"a beat": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			beat(b, better, time.Minute)
			return nil
		}, age: fresh, why: "alive 1m", dearer: 100},
		"a beat that is too old": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			beat(b, better, 20*time.Minute)
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"a beat of somebody else's": {set: func(b *board, _, _ *relay.Key) map[string]buyer.History {
			beat(b, stranger, time.Minute)
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"silence": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			return map[string]buyer.History{better.PublicKey(): {Done: 5}}
		}, age: stale, why: "silent", same: true},
		"jobs done for us": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			return map[string]buyer.History{better.PublicKey(): {Done: 2}}
		}, age: fresh, why: "2 done for us"},
		"jobs done for us, and dearer than a tenth": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			return map[string]buyer.History{better.PublicKey(): {Done: 2}}
		}, age: fresh, why: "2 done for us", same: true, dearer: 110},
		"requests missed": {set: func(b *board, _, worse *relay.Key) map[string]buyer.History {
			beat(b, worse, time.Minute)
			return map[string]buyer.History{worse.PublicKey(): {Done: 9, Missed: 1, MissedAt: time.Now().Add(-time.Minute)}}
		}, age: fresh, why: "announced 1m", dearer: 9_000},
		"a request missed some time ago": {set: func(b *board, _, worse *relay.Key) map[string]buyer.History {
			return map[string]buyer.History{worse.PublicKey(): {Missed: 1, MissedAt: time.Now().Add(-time.Hour)}}
		}, age: fresh, why: "announced 1m", same: true},
		"many requests missed some time ago": {set: func(b *board, _, worse *relay.Key) map[string]buyer.History {
			return map[string]buyer.History{worse.PublicKey(): {Missed: 6, MissedAt: time.Now().Add(-time.Hour)}}
		}, age: fresh, why: "announced 1m", dearer: 9_000},
		"money lost": {set: func(b *board, better, worse *relay.Key) map[string]buyer.History {
			beat(b, worse, time.Minute)
			return map[string]buyer.History{worse.PublicKey(): {Done: 9, Lost: 1}}
		}, age: fresh, why: "announced 1m"},
		"followed": {set: func(b *board, better, worse *relay.Key) map[string]buyer.History {
			b.add(me, 3, time.Hour, "", nostr.Tag{"p", worse.PublicKey()}) // an older list
			b.add(me, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "we follow it"},
		"followed by a stranger": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			b.add(stranger, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"recommended by whom we follow": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			b.add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.add(friend, 31989, time.Minute, "", nostr.Tag{"d", "5050"}, address(better), address(better))
			return nil
		}, age: fresh, why: "recommended by 1 that we follow"},
		"followed by whom we follow": {set: func(b *board, better, worse *relay.Key) map[string]buyer.History {
			b.add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.add(friend, 3, time.Hour, "", nostr.Tag{"p", worse.PublicKey()}) // an older list, that names both
			b.add(friend, 3, time.Minute, "", nostr.Tag{"p", better.PublicKey()}, nostr.Tag{"p", better.PublicKey()})
			return nil
		}, age: fresh, why: "followed by 1 that we follow"},
		"recommended for another kind": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			b.add(me, 3, time.Minute, "", nostr.Tag{"p", friend.PublicKey()})
			b.add(friend, 31989, time.Minute, "", nostr.Tag{"d", "1"}, address(better))
			return nil
		}, age: fresh, why: "announced 1m", same: true},
		"recommended by a crowd of strangers": {set: func(b *board, better, _ *relay.Key) map[string]buyer.History {
			for range 20 {
				b.add(newKey(t), 31989, time.Minute, "", nostr.Tag{"d", "5050"}, address(better))
			}
			return nil
		}, age: fresh, why: "announced 1m", same: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &board{t: t}
			better, worse := newKey(t), newKey(t)
			if tt.dearer == 0 {
				tt.dearer = 100
			}
			b.announce(better, tt.age, map[string]int64{run: 1_000 + tt.dearer}, map[string]int64{run: 0})
			b.announce(worse, fresh, map[string]int64{run: 1_000}, map[string]int64{run: 0})
			history := tt.set(b, better, worse)
			found, err := buyer.Scout{Market: b, Key: me.PublicKey(), History: history}.Find(t.Context(), run, "")
			if err != nil || len(found) != 2 {
				t.Fatalf("%d found, %v", len(found), err)
			}
			first, at := better, 0
			if tt.same {
				first, at = worse, 1
			}
			if found[0].Provider != first.PublicKey() {
				t.Errorf("first is the other one: %q before %q", found[0].Why, found[1].Why)
			}
			if why := strings.Join(found[at].Why, ", "); !strings.Contains(why, tt.why) {
				t.Errorf("why: %s", why)
			}
		})
	}
}

// TestPriceOfEachJobType: what one type costs says nothing of another; the list
// is ordered by the one that was asked for.
func TestPriceOfEachJobType(t *testing.T) {
	b := &board{t: t}
	one, two := newKey(t), newKey(t)
	b.announce(one, time.Minute, map[string]int64{run: 1_000, embed: 50}, map[string]int64{run: 500, embed: 0})
	b.announce(two, time.Minute, map[string]int64{run: 0, embed: 20}, map[string]int64{run: 2_000, embed: 0})
	for schema, want := range map[string]string{run: one.PublicKey(), embed: two.PublicKey()} {
		found, err := buyer.Scout{Market: b}.Find(t.Context(), schema, "")
		if err != nil || len(found) != 2 || found[0].Provider != want {
			t.Fatalf("%s: %+v, %v", schema, found, err)
		}
		for _, f := range found {
			if f.Provider == one.PublicKey() && (f.MinuteMsats[run] != 1_500 || f.MinuteMsats[embed] != 50) {
				t.Errorf("prices %v", f.MinuteMsats)
			}
		}
	}
	// A provider of an earlier version announces one price a minute for all.
	l := buyer.Listing{PerMinuteMsats: 7, BaseMsats: map[string]int64{run: 1}}
	if price, ok := l.PriceMsats(run, 90*time.Second); !ok || price != 15 {
		t.Errorf("%d, %v", price, ok)
	}
}
